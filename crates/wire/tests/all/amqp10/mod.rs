//! AMQP 1.0: values, frames and messages against qpid-proton's, and a client in virtual time.

mod client;
mod proton;
mod random;

/// Recorded bytes of qpid-proton: side, name, bytes.
pub(crate) fn recorded() -> Vec<(&'static str, &'static str, Vec<u8>)> {
    include_str!("../../data/proton-session.txt")
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| {
            let mut words = line.split(' ');
            let mut word = || words.next().expect("three words");
            let (side, name, hex) = (word(), word(), word());
            let bytes = (0..hex.len() / 2)
                .map(|i| u8::from_str_radix(&hex[2 * i..2 * i + 2], 16).expect("hexadecimal"))
                .collect();
            (side, name, bytes)
        })
        .collect()
}
