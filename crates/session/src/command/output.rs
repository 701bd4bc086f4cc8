//! A program's output in bounded memory.

/// Bytes that are kept of the beginning of a program's output, and as many of its end.
const KEPT: usize = 256 * 1024;

/// The beginning and the end of a program's output.
#[derive(Debug, Default)]
pub(super) struct Output {
    first: Vec<u8>,
    last: Vec<u8>,
    /// Bytes between them that were not kept.
    left_out: usize,
}

impl Output {
    pub(super) fn add(&mut self, bytes: &[u8]) {
        let room = KEPT.saturating_sub(self.first.len()).min(bytes.len());
        let (first, rest) = bytes.split_at(room);
        self.first.extend_from_slice(first);
        self.last.extend_from_slice(rest);
        // Moved seldom, not for each line.
        if self.last.len() > 2 * KEPT {
            let over = self.last.len() - KEPT;
            self.last.drain(..over);
            self.left_out += over;
        }
    }

    /// The kept output. Left out are whole lines where there are any: half a line may hold half a secret.
    pub(super) fn text(&self) -> String {
        let over = self.last.len().saturating_sub(KEPT);
        if self.left_out + over == 0 {
            let all = [self.first.as_slice(), &self.last].concat();
            return String::from_utf8_lossy(&all).into_owned();
        }
        let is_end = |byte: &u8| *byte == b'\n';
        let first = self.first.iter().rposition(is_end);
        let first = first.map_or(self.first.as_slice(), |end| self.first.split_at(end + 1).0);
        let last = self.last.split_at(over).1;
        let begin = last.iter().position(is_end);
        let last = begin.map_or(last, |end| last.split_at(end + 1).1);
        let kept = first.len() + last.len();
        let left_out = self.first.len() + self.left_out + self.last.len() - kept;
        format!(
            "{}\n[{} bytes are left out]\n{}",
            String::from_utf8_lossy(first),
            measure::count(left_out as u64),
            String::from_utf8_lossy(last)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_long_output_beginning_and_end_are_kept() {
        let mut output = Output::default();
        output.add(b"begin\n");
        let line = [[b'x'; 999].as_slice(), b"\n"].concat();
        (0..5000).for_each(|_| output.add(&line));
        output.add(b"end");
        let text = output.text();
        assert!(text.starts_with("begin\nxxx") && text.ends_with("xxx\nend"));
        assert!(text.len() < 2 * KEPT + 100, "{}", text.len());
        assert!(output.last.len() <= 2 * KEPT);
        let (before, rest) = text.split_once("\n[").unwrap();
        let (left_out, after) = rest.split_once(" bytes are left out]\n").unwrap();
        let left_out: usize = left_out.replace(',', "").parse().unwrap();
        assert_eq!(before.len() + left_out + after.len(), 5_000_009);
        // Whole lines.
        assert!(before.ends_with("x\n") && after.starts_with(&"x".repeat(999)));
    }

    #[test]
    fn a_short_output_is_kept_as_a_whole() {
        let mut output = Output::default();
        output.add(b"all of \xff it");
        assert_eq!(output.text(), "all of \u{fffd} it");
    }

    #[test]
    fn an_output_without_lines_is_kept_in_part() {
        let mut output = Output::default();
        output.add(&vec![b'y'; 3 * KEPT]);
        let text = output.text();
        let kept = measure::count(KEPT as u64);
        assert!(text.contains(&format!("[{kept} bytes are left out]")));
    }
}
