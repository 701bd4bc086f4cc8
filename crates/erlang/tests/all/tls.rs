//! Distribution over TLS, with certificates of our own.

use crate::common;

use std::fs;
use std::path::Path;

use common::Beam;
use erlang::{ConnectOptions, Error, Identity, Node, TlsOptions};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType, IsCa, KeyPair};

fn certificates(folder: &Path) {
    let key = || KeyPair::generate().expect("a key");
    let mut params = CertificateParams::new(Vec::<String>::new()).expect("parameters");
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, "an authority");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(params, key()).expect("an authority");
    let write = |name: &str, text: String| fs::write(folder.join(name), text).expect("a file");
    write("ca.pem", authority.pem());
    for name in ["node", "client"] {
        let key = key();
        let names = vec!["127.0.0.1".into()];
        let mut params = CertificateParams::new(names).expect("parameters");
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, format!("a {name}"));
        let signed = params.signed_by(&key, &authority).expect("a certificate");
        write(&format!("{name}.pem"), signed.pem());
        write(&format!("{name}.key"), key.serialize_pem());
    }
    let options = format!(
        "[{{server, [{{cacertfile, \"{0}/ca.pem\"}}, {{certfile, \"{0}/node.pem\"}}, \
         {{keyfile, \"{0}/node.key\"}}, {{verify, verify_peer}}, {{fail_if_no_peer_cert, true}}]}}].\n",
        folder.display()
    );
    write("tls.conf", options);
}

#[test]
fn a_node_is_asked_over_tls() {
    let home = tempfile::tempdir().expect("a folder");
    let path = |name: &str| home.path().join(name);
    certificates(home.path());
    let conf = path("tls.conf").display().to_string();
    let beam = Beam::start(home.path(), &["-proto_dist", "inet_tls", "-ssl_dist_optfile", &conf]);
    let tls = TlsOptions {
        ca: Some(path("ca.pem")),
        identity: Some(Identity { certificate: path("client.pem"), key: path("client.key") }),
        ..TlsOptions::default()
    };
    let with = |tls: Option<TlsOptions>| ConnectOptions { tls, ..beam.options() };
    let node = Node::connect(&with(Some(tls.clone()))).expect("connected");
    // More than a record of TLS, both ways.
    let numbers = node.call("lists", "seq", vec![erlang::term::int(1), erlang::term::int(100_000)]);
    let numbers = numbers.expect("numbers");
    let sum = node.call("lists", "sum", vec![numbers]).expect("a sum");
    assert_eq!(erlang::term::as_int(&sum), Some(5_000_050_000));

    let refused = |options: ConnectOptions| Node::connect(&options).expect_err("refused");
    // Nobody trusts the node, it does not trust us, or TLS is left out.
    let stranger = refused(with(Some(TlsOptions { ca: None, ..tls.clone() })));
    assert!(matches!(stranger, Error::Other(_)), "{stranger}");
    let nobody = refused(with(Some(TlsOptions { identity: None, ..tls.clone() })));
    // With TLS 1.3 the refusal comes when the handshake is over for us.
    assert!(matches!(nobody, Error::Other(_) | Error::Handshake(_)), "{nobody}");
    let plain = refused(with(None));
    assert!(plain.problem().help.contains("--tls"), "{plain}");
    let insecure = TlsOptions { ca: None, insecure: true, ..tls };
    Node::connect(&with(Some(insecure))).expect("connected");
}
