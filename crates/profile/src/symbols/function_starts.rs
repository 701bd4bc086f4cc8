//! Where the functions of a stripped file begin: `.eh_frame_hdr`, a sorted table for exceptions, names
//! the first address of every one, static ones too, and says nothing of names.

/// Version, and how the three parts behind it are written: a pointer of 32 bits relative to its own
/// place, a count of 32 bits, and a table of pairs of 32 bits relative to the section. All linkers
/// write it so.
const HEADER: [u8; 4] = [1, 0x1b, 0x03, 0x3b];

/// The first address of each function, in the order of the section, which is at `address`; none where
/// it is written in another way.
pub(super) fn function_starts(section: &[u8], address: u64) -> Vec<u64> {
    let Some(table) = section.strip_prefix(&HEADER) else {
        return Vec::new();
    };
    let (words, _) = table.as_chunks::<4>();
    let [_pointer, count, table @ ..] = words else {
        return Vec::new();
    };
    let (pairs, _) = table.as_chunks::<2>();
    let count = u32::from_le_bytes(*count) as usize;
    let starts = pairs.iter().take(count).map(|[start, _entry]| {
        let relative = i32::from_le_bytes(*start);
        address.wrapping_add_signed(relative.into())
    });
    starts.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn section(count: u32, pairs: &[[i32; 2]]) -> Vec<u8> {
        let mut section = HEADER.to_vec();
        section.extend([0; 4]);
        section.extend(count.to_le_bytes());
        section.extend(pairs.as_flattened().iter().flat_map(|w| w.to_le_bytes()));
        section
    }

    #[test]
    fn every_function_of_the_table_is_found() {
        let section = section(2, &[[-0x100, 7], [0x20, 8]]);
        assert_eq!(function_starts(&section, 0x1000), [0xf00, 0x1020]);
    }

    #[test]
    fn tables_that_end_early_or_are_none_do_no_harm() {
        let whole = section(u32::MAX, &[[1, 2], [3, 4]]);
        assert_eq!(function_starts(&whole, u64::MAX), [0, 2]);
        for len in 0..whole.len() {
            assert!(function_starts(&whole[..len], 0).len() < 2);
        }
        assert!(function_starts(&[2; 64], 0).is_empty());
    }
}
