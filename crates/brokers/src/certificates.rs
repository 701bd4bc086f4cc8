//! A throw-away authority for one broker, with a certificate for the broker and one for its clients.
//! The keys never leave the broker's directory, which nobody else can read, and go with it.

use std::fmt::Display;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use load::{ClientTls, Identity};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose,
};

use super::BrokerError;

/// Every file that is made, and those that a broker cannot do without: a client's may be with the client.
const FILES: [&str; 5] = ["ca.pem", "server.pem", "server-key.pem", "client.pem", "client-key.pem"];

const NEEDED: [&str; 3] = ["ca.pem", "server.pem", "server-key.pem"];

/// The user that the clients' certificate stands for.
const USER: &str = "guest";

/// A throw-away authority (`ca.pem`), certificates of broker (`server.pem`) and clients (`client.pem`), and keys.
#[derive(Clone, Debug)]
pub struct Certificates {
    directory: PathBuf,
}

impl Certificates {
    /// Those in a directory that exists; makes them where it has none. One that holds some of the files is somebody's,
    /// and is not touched. Errors: [`BrokerError::Config`] or [`BrokerError::Guard`] where they cannot be made.
    pub fn find_or_make(directory: &Path) -> Result<Self, BrokerError> {
        let found = Self { directory: directory.to_owned() };
        // A link that leads nowhere is there, too.
        let is_there = |name: &&str| fs::symlink_metadata(found.file(name)).is_ok();
        let there: Vec<&str> = FILES.into_iter().filter(is_there).collect();
        if there.is_empty() {
            return Self::make(directory);
        }
        let missing = NEEDED.into_iter().find(|name| !is_there(name));
        match missing {
            None => Ok(found),
            Some(missing) => Err(BrokerError::config(
                format!("{} has no {missing}, and bellows overwrites nothing there", directory.display()),
                format!("it holds {}", there.join(", ")),
                format!("name another folder, or remove {}", if there.len() == 1 { "it" } else { "them" }),
            )),
        }
    }

    /// The authority's certificate.
    pub fn authority(&self) -> PathBuf {
        self.file("ca.pem")
    }

    /// The broker's certificate and key, for `localhost` and `127.0.0.1`.
    pub fn server(&self) -> (PathBuf, PathBuf) {
        (self.file("server.pem"), self.file("server-key.pem"))
    }

    /// Makes and writes them; all of them, or none.
    pub(super) fn make(directory: &Path) -> Result<Self, BrokerError> {
        let this = Self { directory: directory.to_owned() };
        let mut written = Vec::new();
        let made = texts().and_then(|texts| {
            texts
                .into_iter()
                .try_for_each(|(name, text)| new_private_file(&this.file(name), text.as_bytes(), &mut written))
        });
        if made.is_err() {
            for path in &written {
                // The error at hand says more than a failure to tidy up would.
                let _ = fs::remove_file(path);
            }
        }
        made.map(|()| this)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    pub(super) fn for_clients(&self) -> ClientTls {
        ClientTls {
            ca: Some(self.file("ca.pem")),
            identity: Some(Identity { certificate: self.file("client.pem"), key: self.file("client-key.pem") }),
            ..ClientTls::default()
        }
    }
}

/// The content of every file.
fn texts() -> Result<Vec<(&'static str, String)>, BrokerError> {
    let key = KeyPair::generate().map_err(failed)?;
    let mut params = CertificateParams::new(Vec::new()).map_err(failed)?;
    params.distinguished_name = named("bellows throw-away authority");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let authority = CertifiedIssuer::self_signed(params, key).map_err(failed)?;
    let names = ["localhost", "127.0.0.1"];
    let (server, server_key) = issue(&authority, "localhost", &names, ExtendedKeyUsagePurpose::ServerAuth)?;
    let (client, client_key) = issue(&authority, USER, &[], ExtendedKeyUsagePurpose::ClientAuth)?;
    let texts = [authority.pem(), server, server_key, client, client_key];
    Ok(FILES.into_iter().zip(texts).collect())
}

fn issue(
    authority: &CertifiedIssuer<'_, KeyPair>,
    name: &str,
    names: &[&str],
    purpose: ExtendedKeyUsagePurpose,
) -> Result<(String, String), BrokerError> {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let mut params = CertificateParams::new(names).map_err(failed)?;
    params.distinguished_name = named(name);
    params.extended_key_usages = vec![purpose];
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    let key = KeyPair::generate().map_err(failed)?;
    let certificate = params.signed_by(&key, authority).map_err(failed)?;
    Ok((certificate.pem(), key.serialize_pem()))
}

/// Writes a file that was not there before, and that only this user can read from its first byte.
/// Where anything has its name, a link included, nothing is written.
fn new_private_file(path: &Path, content: &[u8], written: &mut Vec<PathBuf>) -> Result<(), BrokerError> {
    let file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    let mut file = file.map_err(BrokerError::io("create", path))?;
    written.push(path.to_owned());
    file.write_all(content).map_err(BrokerError::io("write", path))
}

fn named(name: &str) -> DistinguishedName {
    let mut names = DistinguishedName::new();
    names.push(DnType::CommonName, name);
    names
}

fn failed(error: impl Display) -> BrokerError {
    BrokerError::config("cannot make the broker's certificates", error, "name a folder with certificates of your own")
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt as _, symlink};

    use super::*;

    #[test]
    fn certificates_are_made_once_and_found_again() {
        let dir = tempfile::tempdir().unwrap();
        let made = Certificates::find_or_make(dir.path()).unwrap();
        for name in FILES {
            let mode = fs::metadata(made.file(name)).unwrap().mode();
            assert_eq!(mode & 0o777, 0o600, "{name}");
        }
        let key = fs::read(made.server().1).unwrap();
        Certificates::find_or_make(dir.path()).unwrap();
        assert_eq!(fs::read(made.server().1).unwrap(), key);
        // A broker needs no client's key.
        fs::remove_file(made.file("client-key.pem")).unwrap();
        Certificates::find_or_make(dir.path()).unwrap();
    }

    #[test]
    fn a_key_that_is_there_is_not_overwritten_and_a_link_is_not_written_through() {
        for name in FILES {
            let dir = tempfile::tempdir().unwrap();
            let (path, victim) = (dir.path().join(name), dir.path().join("victim"));
            let files = || fs::read_dir(dir.path()).unwrap().count();
            fs::write(&path, "precious").unwrap();
            let error = Certificates::find_or_make(dir.path()).unwrap_err().to_string();
            assert!(error.contains(name) && error.contains("overwrites nothing"), "{error}");
            assert_eq!(fs::read(&path).unwrap(), b"precious");
            assert_eq!(files(), 1, "nothing else is made");
            fs::remove_file(&path).unwrap();
            symlink(&victim, &path).unwrap();
            assert!(Certificates::find_or_make(dir.path()).is_err());
            // Nor where the link was laid after it was looked for.
            assert!(Certificates::make(dir.path()).is_err());
            assert!(!victim.exists());
            assert_eq!(files(), 1, "what was begun is removed");
        }
    }
}
