//! Entry functions of the fuzz targets `fleet_message`, `fleet_piece` and `ledger_part`. They panic when something that
//! must hold does not.

use measure::Slice;
use measure::ledger::LedgerPart;

use crate::{Envelope, Piece, PieceRequest, SliceReader, ToCoordinator, ToWorker};

/// Decodes a message of each side. What was decoded can be sent on, and a slice is read or refused.
pub fn message(data: &[u8]) {
    if let Ok(envelope) = Envelope::<ToWorker>::decode(data)
        && let Ok(bytes) = envelope.encode()
    {
        let again = Envelope::<ToWorker>::decode(&bytes).map(|it| (it.epoch, it.session, it.number));
        assert_eq!(again, Ok((envelope.epoch, envelope.session, envelope.number)));
    }
    let Ok(envelope) = Envelope::<ToCoordinator>::decode(data) else { return };
    if let Ok(bytes) = envelope.encode() {
        let again = Envelope::<ToCoordinator>::decode(&bytes).map(|it| (it.epoch, it.session, it.number));
        assert_eq!(again, Ok((envelope.epoch, envelope.session, envelope.number)));
    }
    if let ToCoordinator::Slice(data) | ToCoordinator::Censored(data) = envelope.body {
        let (mut reader, mut slice) = (SliceReader::default(), Slice::default());
        if reader.read(&data, &mut slice).is_ok() {
            assert!(slice.start <= slice.end, "a slice that ends before it begins");
            assert_eq!(reader.add(&data, &mut slice), Ok(()));
        }
    }
}

/// Decodes a piece of a file, and a request for one: sent on they are the same.
pub fn piece(data: &[u8]) {
    if let Ok(piece) = Piece::decode(data)
        && let Ok(bytes) = piece.encode()
    {
        assert_eq!(Piece::decode(&bytes), Ok(piece));
    }
    if let Ok(request) = PieceRequest::decode(data)
        && let Ok(bytes) = request.encode()
    {
        assert_eq!(PieceRequest::decode(&bytes), Ok(request));
    }
}

/// Adds up what follows the first byte as a worker's part of a ledger, and as two parts, which that byte divides.
pub fn ledger(data: &[u8]) {
    let Some((at, bytes)) = data.split_first() else { return };
    let (one, other) = bytes.split_at(bytes.len() * usize::from(*at) / 256);
    let [whole, one, other] = [bytes, one, other].map(|it| LedgerPart::new(it.to_vec()));
    let _ = LedgerPart::sum(&[whole]);
    assert_eq!(LedgerPart::sum(&[one.clone(), other.clone()]), LedgerPart::sum(&[other, one]), "in any order");
}
