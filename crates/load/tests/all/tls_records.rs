//! Handshakes whose messages are longer than a read, a record or a buffer, in memory.

use crate::common::{self, Deaf};

use std::sync::Arc;

use common::Authority;
use load::scenario::churn::{ChurnKind, ChurnPlan};
use load::{Auth, Endpoint};
use measure::Nanos;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use testkit::Random;
use transport::tls::{CIPHER_BYTES, ClientSession, ServerSession, Session, Side, TlsError};

/// Certificate chains of both sides, in records of which length.
struct Chains {
    client: Arc<ClientConfig>,
    server: Arc<ServerConfig>,
}

type Identity = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

fn identity(authority: &Authority, bytes: usize) -> Identity {
    let (certificate, key) = authority.issue_long(&["127.0.0.1"], bytes);
    let chain: Result<Vec<_>, _> = CertificateDer::pem_file_iter(certificate).expect("a file").collect();
    let key = PrivateKeyDer::from_pem_file(key).expect("a key");
    (chain.expect("certificates"), key)
}

fn chains(sizes: (usize, usize), records: (usize, usize), tls12: bool) -> Chains {
    let authority = Authority::new("ca");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut roots = RootCertStore::empty();
    let trusted = CertificateDer::from_pem_file(authority.file("ca")).expect("authority");
    roots.add(trusted).expect("trusted");
    let roots = Arc::new(roots);
    let versions = if tls12 { &[&rustls::version::TLS12] } else { &[&rustls::version::TLS13] };
    let (chain, key) = identity(&authority, sizes.0);
    let mut client = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(versions)
        .expect("a version")
        .with_root_certificates(Arc::clone(&roots))
        .with_client_auth_cert(chain, key)
        .expect("a client");
    client.max_fragment_size = Some(records.0);
    let verifier =
        WebPkiClientVerifier::builder_with_provider(roots, Arc::clone(&provider)).build().expect("a verifier");
    let (chain, key) = identity(&authority, sizes.1);
    let mut server = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(versions)
        .expect("a version")
        .with_client_cert_verifier(verifier)
        .with_single_cert(chain, key)
        .expect("a server");
    server.max_fragment_size = Some(records.1);
    Chains { client: Arc::new(client), server: Arc::new(server) }
}

/// Bytes on their way from one side to the other, which come in pieces.
#[derive(Default)]
struct Line(Vec<u8>);

impl Line {
    /// Moves one piece; whether there was any.
    fn carry<S: Side>(
        &mut self,
        to: &mut Session<S>,
        buffers: (&mut [u8], &mut [u8]),
        most: usize,
        got: &mut Vec<u8>,
    ) -> Result<bool, TlsError> {
        let room = to.room(buffers.0);
        assert!(!room.is_empty(), "no room looks like an end");
        let read = room.len().min(most).min(self.0.len());
        room[..read].copy_from_slice(&self.0[..read]);
        self.0.drain(..read);
        let filled = to.receive(buffers.0, read, buffers.1)?;
        got.extend_from_slice(&buffers.1[..filled]);
        Ok(read > 0)
    }

    fn take<S: Side>(&mut self, from: &mut Session<S>, plain: &mut &[u8]) -> Result<(), TlsError> {
        let taken = from.seal(plain)?;
        *plain = &plain[taken..];
        let written = from.pending().len();
        self.0.extend_from_slice(from.pending());
        from.consume(written);
        Ok(())
    }
}

/// Lets both sides talk until nothing moves; what each of them got.
fn talk(chains: &Chains, words: (&[u8], &[u8]), random: &mut Random) -> Result<[Vec<u8>; 2], TlsError> {
    let name = "127.0.0.1".try_into().expect("a name");
    let mut client = ClientSession::client(Arc::clone(&chains.client), name).expect("a client");
    let mut server = ServerSession::server(Arc::clone(&chains.server)).expect("a server");
    let (mut up, mut down) = (Line::default(), Line::default());
    let (mut said, mut answered) = words;
    let [mut heard, mut read] = [Vec::new(), Vec::new()];
    // As beside a frame that is half there, the buffers are a few bytes shorter.
    let size = CIPHER_BYTES - 7;
    let (mut cipher, mut plain) = (vec![0; size], vec![0; size]);
    loop {
        up.take(&mut client, &mut said)?;
        down.take(&mut server, &mut answered)?;
        let scale = 1 << (1 + random.below(17));
        let piece = 1 + random.below(scale) as usize;
        let moved = up.carry(&mut server, (&mut cipher, &mut plain), piece, &mut heard)?
            | down.carry(&mut client, (&mut cipher, &mut plain), piece, &mut read)?;
        let pending = client.pending().len() + server.pending().len();
        if !moved && pending == 0 {
            assert!(client.is_open() && server.is_open(), "it comes to rest");
            return Ok([heard, read]);
        }
    }
}

#[test]
fn chains_of_any_length_in_records_of_any_length_are_taken() {
    for seed in 1..=24 {
        let mut random = Random::new(seed);
        let mut size = || 1_000 + random.below(60_000) as usize;
        let sizes = (size(), size());
        let mut record = || 256 + random.below(16_000) as usize;
        let records = (record(), record());
        let tls12 = seed % 2 == 0;
        let chains = chains(sizes, records, tls12);
        let words: Vec<u8> = (0..random.below(200_000)).map(|at| at as u8).collect();
        let (said, answered) = words.split_at(words.len() / 3);
        let what = format!("seed {seed}: chains of {sizes:?}, records of {records:?}");
        let got = talk(&chains, (said, answered), &mut random);
        let [heard, read] = got.unwrap_or_else(|fault| panic!("{what}: {fault:?}"));
        assert!(heard == said && read == answered, "{what}");
    }
}

/// Records of one byte make a message longer than it is, and nothing is kept without end.
#[test]
fn a_message_in_too_many_records_is_refused_by_its_length() {
    let chains = chains((1_000, 1_000), (16_000, 16_000), false);
    let name = "127.0.0.1".try_into().expect("a name");
    let mut client = ClientSession::client(chains.client, name).expect("a client");
    // The server's hello, of 65535 bytes.
    let hello = [&[2, 0, 0xFF, 0xFF][..], &[0; 0xFFFF]].concat();
    let records = hello.iter().flat_map(|byte| [22, 3, 3, 0, 1, *byte]);
    let mut line = Line(records.collect());
    let (mut cipher, mut plain) = (vec![0; CIPHER_BYTES], vec![0; CIPHER_BYTES]);
    let fault = loop {
        let buffers = (cipher.as_mut_slice(), plain.as_mut_slice());
        match line.carry(&mut client, buffers, 5_000, &mut Vec::new()) {
            Ok(moved) => assert!(moved, "it is refused before its end"),
            Err(fault) => break fault,
        }
    };
    assert!(matches!(fault, TlsError::TooLong(bytes) if bytes > 90_000), "{fault:?}");
}

/// Through sockets: the one that asks first, and those of the load.
#[test]
fn a_broker_with_a_long_chain_is_churned() {
    let authority = Authority::new("ca");
    let mut tls = authority.listener(&["127.0.0.1"], Some(authority.clients(true)));
    let (certificate, key) = authority.issue_long(&["127.0.0.1"], 60_000);
    tls.tls.identity = load::Identity { certificate, key };
    let (_broker, address) = common::secured(tls);
    let mut endpoint = Endpoint::new("127.0.0.1", address.port());
    endpoint.auth = Auth::External;
    endpoint.tls = Some(authority.identified(authority.issue_long(&["guest"], 50_000)));
    let plan = ChurnPlan {
        most_open: 2,
        timeout: Nanos::from_millis(5_000),
        ..common::churn(endpoint, ChurnKind::Connections, 500)
    };
    let (tally, _) = common::churned(&plan, &mut Deaf).expect("it starts");
    assert!(tally.count("completed") > 0, "{tally:?}");
    assert_eq!(tally.count("failed"), 0, "{tally:?}");
}
