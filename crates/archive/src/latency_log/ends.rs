//! Whether the second column of a log of latencies holds ends of intervals, or their lengths.

/// Intervals of a tag overlap if they are together so many times as long as their span.
pub(super) const OVERLAPPING: f64 = 1.1;
/// Seconds that are no length, and no start of a log that counts from its own: they are of 1973.
const SINCE_1970: f64 = 1e8;
/// Start and length are clock times, not the log's own, if the start is so many lengths ago.
const LONG_AGO: f64 = 100.0;

/// Whether the second column of an interval is its end, where it may be its length, too.
pub(super) fn ends_at(start: f64, second: f64) -> bool {
    let between = second - start;
    let is_of_a_clock = start >= SINCE_1970 || between > 0.0 && start >= LONG_AGO * between;
    between >= 0.0 && is_of_a_clock
}

/// Whether the second column of these first lines holds ends, and not lengths; `None` where both can be.
pub(super) fn holds_ends(start: &[u8]) -> Option<bool> {
    let whole = start.iter().rposition(|&byte| byte == b'\n')?;
    let text = String::from_utf8_lossy(start.get(..whole)?);
    let times = text.lines().filter_map(|line| {
        let tagged = line.strip_prefix("Tag=").map(|it| it.split_once(','));
        let (_, line) = tagged.unwrap_or(Some(("", line)))?;
        let mut numbers = line.split(',').map(|it| it.trim().parse::<f64>().ok());
        let times = (numbers.next()??, numbers.next()??);
        (times.0.is_finite() && times.1.is_finite()).then_some(times)
    });
    let mut times: Vec<(f64, f64)> = times.collect();
    // Tags of one interval.
    times.dedup();
    let ((first, _), (last, second)) = (*times.first()?, *times.last()?);
    if times.len() < 2 {
        return None;
    }
    if times.iter().any(|(start, second)| second < start) {
        return Some(false);
    }
    let sum: f64 = times.iter().map(|it| it.1).sum();
    let starts: f64 = times.iter().map(|it| it.0).sum();
    let can_be_ends = sum - starts <= OVERLAPPING * (second - first);
    let can_be_lengths = sum <= OVERLAPPING * (last + second - first);
    (can_be_ends != can_be_lengths).then_some(can_be_ends)
}
