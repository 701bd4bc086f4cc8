//! A throw-away authority, and embedded brokers.
#![allow(dead_code, reason = "every test file uses a part of it")]

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

pub(crate) mod peer;

use broker::Clients;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};

/// An authority whose files lie in `folder`.
pub(crate) struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    folder: PathBuf,
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
        Self { issuer, folder }
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}.pem"))
    }

    /// A certificate for these names; the first is the file's, too.
    pub(crate) fn issue(&self, names: &[&str]) -> (PathBuf, PathBuf) {
        let names: Vec<String> = names.iter().map(|n| (*n).to_owned()).collect();
        let mut params = CertificateParams::new(names.clone()).expect("parameters");
        params
            .distinguished_name
            .push(DnType::CommonName, &*names[0]);
        let key = KeyPair::generate().expect("key");
        let certificate = params.signed_by(&key, &self.issuer).expect("certificate");
        let at = |kind: &str| self.folder.join(format!("{}-{kind}.pem", names[0]));
        std::fs::write(at("cert"), certificate.pem()).expect("write");
        std::fs::write(at("key"), key.serialize_pem()).expect("write");
        (at("cert"), at("key"))
    }

    /// A TLS listener that shows a certificate for `names`, and may want one of its clients.
    pub(crate) fn listener(&self, names: &[&str], clients: Option<Clients>) -> broker::Tls {
        let (certificate, key) = self.issue(names);
        broker::Tls {
            listen: "127.0.0.1:0".parse().expect("address"),
            certificate,
            key,
            clients,
        }
    }

    /// Clients with this authority's certificates.
    pub(crate) fn clients(&self, required: bool) -> Clients {
        Clients {
            authorities: self.file("ca"),
            required,
        }
    }

    /// What a client needs that trusts this authority.
    pub(crate) fn trusted(&self) -> load::Tls {
        load::Tls {
            ca: Some(self.file("ca")),
            ..load::Tls::default()
        }
    }
}

pub(crate) fn embedded() -> broker::Running {
    started(broker::Config::default())
}

/// An embedded broker with a TLS listener beside the plain one, and the listener's address.
pub(crate) fn secured(tls: broker::Tls) -> (broker::Running, SocketAddr) {
    let broker = started(broker::Config {
        tls: Some(tls),
        ..broker::Config::default()
    });
    let address = broker.tls_addr().expect("a TLS listener");
    (broker, address)
}

pub(crate) fn started(config: broker::Config) -> broker::Running {
    broker::Broker::bind(config)
        .expect("bind")
        .spawn()
        .expect("spawn")
}
