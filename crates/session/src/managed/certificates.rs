//! A throw-away authority for one node, with a certificate for the node and one for its clients.
//! The keys never leave the node's directory, which nobody else can read, and go with it.

use std::fmt::Display;
use std::path::{Path, PathBuf};

use load::{Identity, Tls};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType,
    ExtendedKeyUsagePurpose, IsCa, KeyPair, KeyUsagePurpose,
};

use super::{Error, remains::private_file};

/// The user that the clients' certificate stands for.
const USER: &str = "guest";

/// Where the certificates of a throw-away authority are: `ca.pem`, and for the node (`server.pem`)
/// and its clients (`client.pem`) with their keys.
#[derive(Clone, Debug)]
pub struct Certificates {
    directory: PathBuf,
}

impl Certificates {
    /// Those in a directory that exists; makes them where it has none.
    ///
    /// # Errors
    /// [`Error::Config`] or [`Error::Io`] where they cannot be made or written.
    pub fn find_or_make(directory: &Path) -> Result<Self, Error> {
        let found = Self {
            directory: directory.to_owned(),
        };
        let (certificate, key) = found.server();
        if [found.authority(), certificate, key]
            .iter()
            .all(|file| file.exists())
        {
            return Ok(found);
        }
        Self::make(directory)
    }

    /// The authority's certificate.
    #[must_use]
    pub fn authority(&self) -> PathBuf {
        self.file("ca.pem")
    }

    /// The node's certificate and key, for `localhost` and `127.0.0.1`.
    #[must_use]
    pub fn server(&self) -> (PathBuf, PathBuf) {
        (self.file("server.pem"), self.file("server-key.pem"))
    }

    /// Makes and writes them.
    pub(super) fn make(directory: &Path) -> Result<Self, Error> {
        let this = Self {
            directory: directory.to_owned(),
        };
        let key = KeyPair::generate().map_err(failed)?;
        let mut params = CertificateParams::new(Vec::new()).map_err(failed)?;
        params.distinguished_name = named("bellows throw-away authority");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let authority = CertifiedIssuer::self_signed(params, key).map_err(failed)?;
        this.write("ca.pem", &authority.pem())?;
        this.issue(
            &authority,
            ("server", "localhost"),
            &["localhost", "127.0.0.1"],
            ExtendedKeyUsagePurpose::ServerAuth,
        )?;
        this.issue(
            &authority,
            ("client", USER),
            &[],
            ExtendedKeyUsagePurpose::ClientAuth,
        )?;
        Ok(this)
    }

    fn issue(
        &self,
        authority: &CertifiedIssuer<'_, KeyPair>,
        (file, name): (&str, &str),
        names: &[&str],
        purpose: ExtendedKeyUsagePurpose,
    ) -> Result<(), Error> {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).map_err(failed)?;
        params.distinguished_name = named(name);
        params.extended_key_usages = vec![purpose];
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        let key = KeyPair::generate().map_err(failed)?;
        let certificate = params.signed_by(&key, authority).map_err(failed)?;
        self.write(&format!("{file}.pem"), &certificate.pem())?;
        self.write(&format!("{file}-key.pem"), &key.serialize_pem())
    }

    fn write(&self, name: &str, text: &str) -> Result<(), Error> {
        private_file(&self.directory.join(name), text.as_bytes())
    }

    fn file(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// What a client needs.
    pub(super) fn for_clients(&self) -> Tls {
        Tls {
            ca: Some(self.file("ca.pem")),
            identity: Some(Identity {
                certificate: self.file("client.pem"),
                key: self.file("client-key.pem"),
            }),
            ..Tls::default()
        }
    }

    /// Lines of `rabbitmq.conf`: a listener that asks for a client's certificate and does without,
    /// and a login by the certificate's common name.
    pub(super) fn settings(&self, port: u16) -> String {
        let file = |name: &str| self.file(name).display().to_string();
        format!(
            "listeners.ssl.1 = 127.0.0.1:{port}\n\
             ssl_options.cacertfile = {}\n\
             ssl_options.certfile = {}\n\
             ssl_options.keyfile = {}\n\
             ssl_options.verify = verify_peer\n\
             ssl_options.fail_if_no_peer_cert = false\n\
             ssl_cert_login_from = common_name\n\
             auth_mechanisms.1 = PLAIN\n\
             auth_mechanisms.2 = AMQPLAIN\n\
             auth_mechanisms.3 = EXTERNAL\n",
            file("ca.pem"),
            file("server.pem"),
            file("server-key.pem"),
        )
    }
}

fn named(name: &str) -> DistinguishedName {
    let mut names = DistinguishedName::new();
    names.push(DnType::CommonName, name);
    names
}

fn failed(error: impl Display) -> Error {
    Error::Config(format!("cannot make the node's certificates: {error}"))
}
