//! Both sides of a login by SCRAM-SHA-256 (RFC 5802, RFC 7677): the client proves that it knows a password, the server
//! that it knows one derived from it, and neither tells it. A password is taken as it is, without SASLprep.
//!
//! ```text
//! client                                server
//!   n,,n=USER,r=NONCE            --->
//!                                <---   r=NONCE+MORE,s=SALT,i=ITERATIONS
//!   c=biws,r=NONCE+MORE,p=PROOF  --->
//!                                <---   v=SIGNATURE
//! ```

use std::fmt;
use std::num::NonZeroU32;
use std::ops::RangeInclusive;
use std::sync::{Mutex, OnceLock, PoisonError};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::rand::{SecureRandom, SystemRandom};
use ring::{digest, hmac, pbkdf2};

/// The mechanism's name.
pub const SCRAM_SHA_256: &str = "SCRAM-SHA-256";
/// How often a password is hashed: the least that RFC 7677 allows.
const ITERATIONS: NonZeroU32 = match NonZeroU32::new(4_096) {
    Some(number) => number,
    None => NonZeroU32::MIN,
};
/// The most that a client does for a server: less than a second of CPU.
const MOST_ITERATIONS: u32 = 600_000;
/// Bytes of a salt that a client takes.
const SALT: RangeInclusive<usize> = 8..=256;
/// Bytes of a peer's message at most; one is kept until the login is over.
const LONGEST: usize = 1_024;
/// How many passwords, with their salts, a process keeps the keys of.
const KEPT: usize = 16;
const UNREADABLE: &str = "the server's message is not as SCRAM has it";
const UNPROVED: &str = "the server did not prove that it knows the password";

/// Bytes of a hash.
type Hash = [u8; 32];

/// The form in which a server keeps a password. Nothing shows it.
#[derive(Clone, PartialEq, Eq)]
pub struct ScramKeys {
    salt: [u8; 16],
    stored: Hash,
    server: Hash,
}

impl fmt::Debug for ScramKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl ScramKeys {
    /// Derives them with a random salt. It takes about a millisecond: keep them.
    pub fn derive(password: &str, salt: [u8; 16]) -> Self {
        let salted = salted(password, &salt, ITERATIONS);
        Self { salt, stored: hash(&mac(&salted, b"Client Key")), server: mac(&salted, b"Server Key") }
    }

    /// Keys that no password has, for a name that no user has: a challenge with them is like a user's, and is the same
    /// each time. `None` where the system has nothing random.
    pub fn of_nobody(name: &str) -> Option<Self> {
        static SECRET: OnceLock<Hash> = OnceLock::new();
        let mut random = Hash::default();
        if SECRET.get().is_none() {
            SystemRandom::new().fill(&mut random).ok()?;
        }
        let of = |what: &str| mac(SECRET.get_or_init(|| random), format!("{what}{name}").as_bytes());
        let salt = *of("salt ").first_chunk()?;
        Some(Self { salt, stored: of("stored "), server: of("server ") })
    }
}

/// A user's name as it stands in a client's message.
pub fn scram_name(name: &str) -> String {
    name.replace('=', "=3D").replace(',', "=2C")
}

/// A random nonce for a client's login; empty where the system has nothing random.
pub fn scram_nonce() -> String {
    let mut bytes = [0; 16];
    let filled = SystemRandom::new().fill(&mut bytes);
    filled.map_or_else(|_| String::new(), |()| measure::hex(&bytes))
}

/// A login in progress, seen from the server.
#[derive(Debug)]
pub(super) struct ScramLogin {
    /// The beginning of the client's first message, encoded.
    binding: String,
    /// All that was said after that: what client and server sign.
    messages: String,
    /// The client's nonce, then with the server's.
    nonce: String,
    /// Those of the user, once the server has named them.
    keys: Option<ScramKeys>,
}

impl ScramLogin {
    /// Takes a client's first message, with the name in it; `None` where it cannot be read, or asks for more than a
    /// login.
    pub(super) fn begin(message: &[u8]) -> Option<(Self, &str)> {
        let text = str::from_utf8(message).ok().filter(|it| it.len() <= LONGEST)?;
        // No channel is bound, and nobody acts for another user.
        let bare = text.strip_prefix("n,,").or_else(|| text.strip_prefix("y,,"))?;
        let (user, rest) = bare.strip_prefix("n=")?.split_once(",r=")?;
        let nonce = rest.split(',').next().filter(|it| !it.is_empty())?;
        let binding = STANDARD.encode(text.strip_suffix(bare)?);
        Some((Self { binding, messages: bare.to_owned(), nonce: nonce.to_owned(), keys: None }, user))
    }

    /// The answer to the first message, for the user who has these keys.
    pub(super) fn challenge(&mut self, keys: &ScramKeys, nonce: &str) -> String {
        self.nonce.push_str(nonce);
        self.keys = Some(keys.clone());
        let challenge = format!("r={},s={},i={ITERATIONS}", self.nonce, STANDARD.encode(keys.salt));
        self.messages = format!("{},{challenge},", self.messages);
        challenge
    }

    /// The answer to the last message; `None` where its proof is none of the user's password.
    pub(super) fn finish(self, message: &[u8]) -> Option<String> {
        let keys = self.keys?;
        let text = str::from_utf8(message).ok().filter(|it| it.len() <= LONGEST)?;
        let (said, proof) = text.rsplit_once(",p=")?;
        let (binding, nonce) = said.strip_prefix("c=")?.split_once(",r=")?;
        if binding != self.binding || nonce != self.nonce {
            return None;
        }
        let messages = self.messages + said;
        let proof = STANDARD.decode(proof).ok()?;
        let signature = mac(&keys.stored, messages.as_bytes());
        let is_right = proof.len() == signature.len() && hash(&both(&signature, &proof)) == keys.stored;
        is_right.then(|| format!("v={}", STANDARD.encode(mac(&keys.server, messages.as_bytes()))))
    }
}

/// A login in progress, seen from the client. None of its steps holds the password.
#[derive(Debug)]
pub(super) enum ScramProof {
    /// The first message is sent: the nonce in it, and the part of it that both sides sign.
    Begun { nonce: String, bare: String },
    /// The proof is sent, which this message of the server answers.
    Sent { answer: String },
    /// The server has proved that it knows the password, too.
    Done,
}

impl ScramProof {
    /// Begins a login; the first message. The nonce is random, printable ASCII, and without commas.
    pub(super) fn begin(user: &str, nonce: &str) -> (Self, String) {
        let bare = format!("n={},r={nonce}", scram_name(user));
        let message = format!("n,,{bare}");
        (Self::Begun { nonce: nonce.to_owned(), bare }, message)
    }

    /// The response to a challenge, of which there are two at most. Errors: what the server has done wrong.
    pub(super) fn respond(&mut self, challenge: &[u8], password: &str) -> Result<String, String> {
        let Self::Begun { nonce, bare } = self else {
            self.verify(challenge)?;
            return Ok(String::new());
        };
        let text = text_of(challenge)?;
        let (nonce, salted) = salted_for(text, nonce, password)?;
        let said = format!("c={},r={nonce}", STANDARD.encode("n,,"));
        let messages = format!("{bare},{text},{said}");
        let client_key = mac(&salted, b"Client Key");
        let proof = both(&client_key, &mac(&hash(&client_key), messages.as_bytes()));
        let signature = mac(&mac(&salted, b"Server Key"), messages.as_bytes());
        *self = Self::Sent { answer: format!("v={}", STANDARD.encode(signature)) };
        Ok(format!("{said},p={}", STANDARD.encode(proof)))
    }

    /// The server lets the client in, and may prove itself by that. Errors: it has not done so.
    pub(super) fn end(&mut self, said: Option<&[u8]>) -> Result<(), String> {
        match said {
            Some(said) if matches!(self, Self::Sent { .. }) => self.verify(said),
            _ if matches!(self, Self::Done) => Ok(()),
            _ => Err(UNPROVED.to_owned()),
        }
    }

    /// Takes the server's answer to the proof.
    fn verify(&mut self, said: &[u8]) -> Result<(), String> {
        let text = text_of(said)?;
        match self {
            Self::Sent { answer } if text.split(',').next() == Some(answer.as_str()) => *self = Self::Done,
            Self::Sent { .. } if text.starts_with("e=") => return Err(format!("the server answers {text:?}")),
            Self::Sent { .. } => return Err(UNPROVED.to_owned()),
            _ => return Err("the server goes on after its proof".to_owned()),
        }
        Ok(())
    }
}

fn text_of(message: &[u8]) -> Result<&str, String> {
    str::from_utf8(message).ok().filter(|it| it.len() <= LONGEST).ok_or_else(|| UNREADABLE.to_owned())
}

/// The whole nonce in a server's first message, and the password as that wants it hashed. Errors: what is wrong there.
fn salted_for<'a>(challenge: &'a str, ours: &str, password: &str) -> Result<(&'a str, Hash), String> {
    let fields = || {
        let (nonce, rest) = challenge.strip_prefix("r=")?.split_once(",s=")?;
        let (salt, rest) = rest.split_once(",i=")?;
        let iterations: u64 = rest.split(',').next()?.parse().ok()?;
        Some((nonce, STANDARD.decode(salt).ok()?, iterations))
    };
    let (nonce, salt, iterations) = fields().ok_or(UNREADABLE)?;
    let goes_on = nonce.strip_prefix(ours).is_some_and(|more| !more.is_empty() && !more.contains(','));
    if !goes_on {
        return Err("the server does not go on from the client's nonce".to_owned());
    }
    if !SALT.contains(&salt.len()) {
        return Err(format!("the server's salt has {} bytes, not {} to {}", salt.len(), SALT.start(), SALT.end()));
    }
    let allowed = u32::try_from(iterations).ok().filter(|it| (ITERATIONS.get()..=MOST_ITERATIONS).contains(it));
    let iterations = allowed.and_then(NonZeroU32::new).ok_or_else(|| {
        format!("the server's iteration count is {iterations}, not {ITERATIONS} to {MOST_ITERATIONS}")
    })?;
    Ok((nonce, SaltedPassword::get(password, &salt, iterations)))
}

/// A client's password, salted and hashed as a server has asked for it.
struct SaltedPassword {
    /// Digest of password, salt and iteration count.
    of: Hash,
    salted: Hash,
}

/// Those that were used last: connections that come and go are not to pay for each again.
static SALTED: Mutex<Vec<SaltedPassword>> = Mutex::new(Vec::new());

impl SaltedPassword {
    fn get(password: &str, salt: &[u8], iterations: NonZeroU32) -> Hash {
        let of = mac(password.as_bytes(), &[salt, &iterations.get().to_be_bytes()].concat());
        let mut kept = SALTED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = kept.iter().find(|it| it.of == of) {
            return known.salted;
        }
        let salted = salted(password, salt, iterations);
        if kept.len() == KEPT {
            kept.remove(0);
        }
        kept.push(Self { of, salted });
        salted
    }
}

fn salted(password: &str, salt: &[u8], iterations: NonZeroU32) -> Hash {
    let mut salted = Hash::default();
    pbkdf2::derive(pbkdf2::PBKDF2_HMAC_SHA256, iterations, salt, password.as_bytes(), &mut salted);
    salted
}

/// Exclusive or, as long as the shorter of the two.
fn both(one: &[u8], other: &[u8]) -> Vec<u8> {
    one.iter().zip(other).map(|(a, b)| a ^ b).collect()
}

fn mac(key: &[u8], message: &[u8]) -> Hash {
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), message);
    tag.as_ref().try_into().unwrap_or_default()
}

fn hash(bytes: &[u8]) -> Hash {
    digest::digest(&digest::SHA256, bytes).as_ref().try_into().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The exchange in section 3 of RFC 7677.
    #[test]
    fn the_login_of_the_rfc_is_accepted_and_no_other() {
        let salt = STANDARD.decode("W22ZaJ0SNY7soEsUEjb6gQ==").unwrap();
        let keys = ScramKeys::derive("pencil", salt.try_into().unwrap());
        assert_eq!(format!("{keys:?}"), "***");
        let begun = || {
            let (mut login, user) = ScramLogin::begin(b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO").unwrap();
            assert_eq!(user, "user");
            let challenge = login.challenge(&keys, "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0");
            let nonce = "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0";
            assert_eq!(challenge, format!("r={nonce},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"));
            login
        };
        let last = "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
                    p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";
        let signature = "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=";
        assert_eq!(begun().finish(last.as_bytes()).as_deref(), Some(signature));
        for wrong in [
            last.replace("p=d", "p=e"),
            last.replace("biws", "eSws"),
            last.replace("$k0", "$k1"),
            last.replace("p=dHzb", "p="),
            last.replace(",p=", ",q="),
            last.replace("VQ=", ""),
            String::new(),
        ] {
            assert_eq!(begun().finish(wrong.as_bytes()), None, "{wrong}");
        }
    }

    const NONCE: &str = "rOprNGfwEbeRWgbNEkqO";

    fn begun() -> ScramProof {
        let (proof, message) = ScramProof::begin("user", NONCE);
        assert_eq!(message, format!("n,,n=user,r={NONCE}"));
        proof
    }

    /// The exchange in section 3 of RFC 7677, whose last message comes in a challenge or with the outcome.
    #[test]
    fn a_client_proves_its_password_as_in_the_rfc_and_lets_no_other_server_have_it() {
        let challenge = format!("r={NONCE}%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096");
        let sent = || {
            let mut proof = begun();
            let last = proof.respond(challenge.as_bytes(), "pencil").unwrap();
            assert!(!format!("{proof:?}").contains("pencil"));
            (proof, last)
        };
        let (mut proof, last) = sent();
        let expected = "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
                        p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";
        assert_eq!(last, expected);
        let signature = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=";
        assert_eq!(proof.end(Some(signature)), Ok(()));
        let (mut proof, _) = sent();
        assert_eq!(proof.respond(signature, "pencil").as_deref(), Ok(""));
        assert_eq!(proof.end(None), Ok(()));
        assert!(proof.respond(signature, "pencil").unwrap_err().contains("goes on after"));
        for (said, why) in [
            (&b"v=7rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="[..], UNPROVED),
            (b"e=other-error", "e=other-error"),
            (b"\xff", UNREADABLE),
        ] {
            let error = sent().0.end(Some(said)).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
        assert_eq!(sent().0.end(None), Err(UNPROVED.to_owned()));
        assert_eq!(begun().end(Some(signature)), Err(UNPROVED.to_owned()));
    }

    #[test]
    fn a_client_does_not_go_along_with_a_hostile_challenge() {
        let (long, salt) = ("x".repeat(LONGEST), "W22ZaJ0SNY7soEsUEjb6gQ==");
        for (challenge, why) in [
            (format!("r={NONCE},s={salt},i=4096"), "client's nonce"),
            (format!("r=other{NONCE},s={salt},i=4096"), "client's nonce"),
            (format!("r={NONCE}more,x=,s={salt},i=4096"), "client's nonce"),
            (format!("r={NONCE}more,s={salt},i=4294967295"), "iteration count is 4294967295, not 4096 to 600000"),
            (format!("r={NONCE}more,s={salt},i=4294967297"), "is 4294967297, not"),
            (format!("r={NONCE}more,s={salt},i=1"), "is 1, not"),
            (format!("r={NONCE}more,s=,i=4096"), "salt has 0 bytes, not 8 to 256"),
            (format!("r={NONCE}more,s={},i=4096", STANDARD.encode([7; 300])), "salt has 300 bytes"),
            (format!("r={NONCE}more,s=?,i=4096"), UNREADABLE),
            (format!("r={NONCE}more,s={salt},i=-1"), UNREADABLE),
            (format!("m=must,r={NONCE}more,s={salt},i=4096"), UNREADABLE),
            (format!("r={NONCE}{long},s={salt},i=4096"), UNREADABLE),
            (String::new(), UNREADABLE),
        ] {
            let error = begun().respond(challenge.as_bytes(), "pencil").unwrap_err();
            assert!(error.contains(why), "{challenge}: {error}");
        }
    }

    #[test]
    fn a_first_message_is_that_of_one_user_and_no_more() {
        for message in
            ["p=tls-unique,,n=u,r=n", "n,a=other,n=u,r=n", "n,,m=x,n=u,r=n", "n,,n=u", "n,,n=u,r=", "", "n,,"]
        {
            assert!(ScramLogin::begin(message.as_bytes()).is_none(), "{message}");
        }
        assert!(ScramLogin::begin(format!("n,,n=u,r={}", "x".repeat(LONGEST)).as_bytes()).is_none());
        let (_, user) = ScramLogin::begin(b"y,,n=a=2Cb=3Dc,r=n,x=more").unwrap();
        assert_eq!(user, scram_name("a,b=c"));
    }
}
