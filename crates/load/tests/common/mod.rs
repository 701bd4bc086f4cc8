//! A throw-away authority, and TLS in front of an embedded broker.
#![allow(dead_code, reason = "every test file uses a part of it")]

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig, ServerConnection};

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

    /// What a server needs that shows a certificate for `names`, and may want one of its clients.
    pub(crate) fn server(&self, names: &[&str], wants_client: bool) -> Arc<ServerConfig> {
        use rustls::pki_types::pem::PemObject;
        let (certificate, key) = self.issue(names);
        let chain = vec![CertificateDer::from_pem_file(certificate).expect("certificate")];
        let key = PrivateKeyDer::from_pem_file(key).expect("key");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .expect("versions");
        let builder = if wants_client {
            let mut roots = RootCertStore::empty();
            roots.add(self.issuer.der().clone()).expect("root");
            let verifier = WebPkiClientVerifier::builder_with_provider(roots.into(), provider);
            builder.with_client_cert_verifier(verifier.build().expect("verifier"))
        } else {
            builder.with_no_client_auth()
        };
        Arc::new(builder.with_single_cert(chain, key).expect("server"))
    }
}

/// Takes TLS off and passes on to `target`.
pub(crate) fn in_front_of(target: SocketAddr, config: Arc<ServerConfig>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("bind");
    let address = listener.local_addr().expect("address");
    thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            let config = Arc::clone(&config);
            thread::spawn(move || pass_on(client, target, config));
        }
    });
    address
}

/// Both sides in turn, without blocking on either. Ends with the first that ends.
fn pass_on(mut client: TcpStream, target: SocketAddr, config: Arc<ServerConfig>) -> Option<()> {
    let mut tls = ServerConnection::new(config).ok()?;
    let mut broker = TcpStream::connect(target).ok()?;
    for stream in [&client, &broker] {
        stream.set_nonblocking(true).ok()?;
        stream.set_nodelay(true).ok()?;
    }
    let mut to_broker = Vec::new();
    let mut buffer = vec![0; 64 << 10];
    loop {
        let mut idle = true;
        match tls.read_tls(&mut client) {
            Ok(0) => return None,
            Ok(_) => {
                idle = false;
                if tls.process_new_packets().is_err() {
                    // The alert that says why.
                    client.set_nonblocking(false).ok()?;
                    tls.write_tls(&mut client).ok()?;
                    // Closing on unread bytes would destroy it.
                    client.shutdown(std::net::Shutdown::Write).ok()?;
                    client.read_to_end(&mut to_broker).ok()?;
                    return None;
                }
                while let Ok(n @ 1..) = tls.reader().read(&mut buffer) {
                    to_broker.extend_from_slice(&buffer[..n]);
                }
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(_) => return None,
        }
        match broker.write(&to_broker) {
            Ok(n) => drop(to_broker.drain(..n)),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(_) => return None,
        }
        if !tls.wants_write() {
            match broker.read(&mut buffer) {
                Ok(0) => return None,
                Ok(n) => {
                    idle = false;
                    tls.writer().write_all(&buffer[..n]).ok()?;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(_) => return None,
            }
        }
        while tls.wants_write() {
            match tls.write_tls(&mut client) {
                Ok(_) => idle = false,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(_) => return None,
            }
        }
        if idle {
            thread::sleep(Duration::from_micros(200));
        }
    }
}

pub(crate) fn embedded() -> broker::Running {
    let config = broker::Config {
        listen: "127.0.0.1:0".parse().expect("address"),
        ..broker::Config::default()
    };
    broker::Broker::bind(config)
        .expect("bind")
        .spawn()
        .expect("spawn")
}
