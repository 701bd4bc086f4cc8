//! The server's side of a login by SCRAM-SHA-256 (RFC 5802, RFC 7677): the client proves that it knows a password, the
//! server that it knows one derived from it, and neither tells it. A password is taken as it is, without SASLprep.
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

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::{digest, hmac, pbkdf2};

/// The mechanism's name.
pub const SCRAM_SHA_256: &str = "SCRAM-SHA-256";
/// How often a password is hashed: the least that RFC 7677 allows.
const ITERATIONS: NonZeroU32 = match NonZeroU32::new(4_096) {
    Some(number) => number,
    None => NonZeroU32::MIN,
};
/// Bytes of a client's message at most; one is kept until the login is over.
const LONGEST: usize = 1_024;

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
        let mut salted = Hash::default();
        pbkdf2::derive(pbkdf2::PBKDF2_HMAC_SHA256, ITERATIONS, &salt, password.as_bytes(), &mut salted);
        Self { salt, stored: hash(&mac(&salted, b"Client Key")), server: mac(&salted, b"Server Key") }
    }
}

/// A user's name as it stands in a client's message.
pub fn scram_name(name: &str) -> String {
    name.replace('=', "=3D").replace(',', "=2C")
}

/// A login in progress.
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
        let client_key: Vec<u8> = signature.iter().zip(&proof).map(|(signed, proved)| signed ^ proved).collect();
        let is_right = proof.len() == signature.len() && hash(&client_key) == keys.stored;
        is_right.then(|| format!("v={}", STANDARD.encode(mac(&keys.server, messages.as_bytes()))))
    }
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
        let signature = "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjxwn1A=";
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
