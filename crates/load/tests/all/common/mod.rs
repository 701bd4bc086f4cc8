//! A throw-away authority, and embedded brokers.
#![allow(dead_code, reason = "every test file uses a part of it")]

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use broker::{ClientCertificates, Identity, ServerTls, TlsListener};
use load::ClientTls;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, CustomExtension, DnType, IsCa, KeyPair};

/// An authority whose files lie in `folder`.
pub(crate) struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    folder: PathBuf,
    /// Certificates so far. Threads that ask for the same name at the same time get files of their own.
    issued: AtomicUsize,
}

impl Authority {
    pub(crate) fn new(folder: &Path, name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::new()).expect("parameters");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().expect("key");
        let issuer = CertifiedIssuer::self_signed(params, key).expect("authority");
        std::fs::write(folder.join(format!("{name}.pem")), issuer.pem()).expect("write");
        let folder = folder.to_owned();
        Self { issuer, folder, issued: AtomicUsize::new(0) }
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}.pem"))
    }

    /// A certificate for these names; the files' names begin with the first.
    pub(crate) fn issue(&self, names: &[&str]) -> (PathBuf, PathBuf) {
        self.issue_long(names, 0)
    }

    /// Adds a remark that makes it this many bytes longer.
    pub(crate) fn issue_long(&self, names: &[&str], bytes: usize) -> (PathBuf, PathBuf) {
        let names: Vec<String> = names.iter().map(|n| (*n).to_owned()).collect();
        let mut params = CertificateParams::new(names.clone()).expect("parameters");
        params.distinguished_name.push(DnType::CommonName, &*names[0]);
        if bytes > 0 {
            let remark = CustomExtension::from_oid_content(&[1, 3, 6, 1, 4, 1, 99_999], {
                // An octet string: tag, and a length of three bytes.
                let length = (bytes as u32).to_be_bytes();
                let head = [4, 0x83, length[1], length[2], length[3]];
                [head.as_slice(), &vec![7; bytes]].concat()
            });
            params.custom_extensions.push(remark);
        }
        let key = KeyPair::generate().expect("key");
        let certificate = params.signed_by(&key, &self.issuer).expect("certificate");
        let number = self.issued.fetch_add(1, Ordering::Relaxed);
        let at = |kind: &str| {
            let name = format!("{}-{number}-{kind}.pem", names[0]);
            self.folder.join(name)
        };
        std::fs::write(at("cert"), certificate.pem()).expect("write");
        std::fs::write(at("key"), key.serialize_pem()).expect("write");
        (at("cert"), at("key"))
    }

    /// A TLS listener that shows a certificate for `names`, and may want one of its clients.
    pub(crate) fn listener(&self, names: &[&str], clients: Option<ClientCertificates>) -> TlsListener {
        let (certificate, key) = self.issue(names);
        let identity = Identity { certificate, key };
        TlsListener { listen: "127.0.0.1:0".parse().expect("address"), tls: ServerTls { identity, clients } }
    }

    /// Clients with this authority's certificates.
    pub(crate) fn clients(&self, required: bool) -> ClientCertificates {
        ClientCertificates { authorities: self.file("ca"), required }
    }

    /// Settings of a client that trusts this authority.
    pub(crate) fn trusted(&self) -> ClientTls {
        ClientTls { ca: Some(self.file("ca")), ..ClientTls::default() }
    }
}

pub(crate) fn embedded() -> broker::Running {
    started(broker::Config::default())
}

/// An embedded broker with a TLS listener beside the plain one, and the listener's address.
pub(crate) fn secured(tls: TlsListener) -> (broker::Running, SocketAddr) {
    let broker = started(broker::Config { tls: Some(tls), ..broker::Config::default() });
    let address = broker.tls_addr().expect("a TLS listener");
    (broker, address)
}

pub(crate) fn started(config: broker::Config) -> broker::Running {
    broker::Broker::bind(config).expect("bind").spawn().expect("spawn")
}

/// Churns alone, and tells what became of the cycles.
pub(crate) fn churned(
    plan: &load::scenario::churn::ChurnPlan,
    sink: &mut dyn load::SliceSink,
) -> Result<(Tally, load::Outcome), load::Error> {
    use load::Together;
    use load::scenario::Scenario as _;
    let mut outcome = plan.run(&Together::alone(), &load::Control::new(), sink)?;
    let tally = outcome.tallies.remove("churn").expect("a tally");
    Ok((Tally(tally), outcome))
}

/// Tally of cycles, by the keys of the metrics.
#[derive(Debug)]
pub(crate) struct Tally(pub(crate) load::OperationTally);

impl Tally {
    pub(crate) fn count(&self, key: &str) -> u64 {
        self.0.counts.get(metric(key))
    }
}

/// The metric with this key.
pub(crate) fn metric(key: &str) -> measure::Metric {
    measure::Metric::named(key, measure::MetricKind::Counter).expect("a key")
}
