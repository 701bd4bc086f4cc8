//! Subtitles in as many lines as narrow screens need: `inferno` draws one line, which a browser cuts at both ends.

use std::fmt::Write as _;

/// Characters of a line, for which screens of 400 pixels have room.
const WIDEST: usize = 52;
/// Pixels from one line to the next.
const LINE: usize = 16;

/// A picture with its subtitle in lines, and the rest moved down.
pub(super) fn wrapped(svg: String, subtitle: &str) -> String {
    let lines = lines(subtitle);
    let parts = svg.split_once("<text id=\"subtitle\"");
    let parts = parts.and_then(|(before, rest)| Some((before, rest.split_once('>')?)));
    let parts = parts.and_then(|(before, (attributes, rest))| {
        Some((before, attributes, rest.split_once("</text>")?.1))
    });
    let Some((before, attributes, after)) = parts.filter(|_| lines.len() > 1) else {
        return svg;
    };
    let room = LINE * (lines.len() - 1);
    let mut text = String::new();
    for (at, line) in lines.iter().enumerate() {
        let line = quick_xml::escape::escape(line.as_str());
        let down = if at == 0 { 0 } else { LINE };
        // Writing to a string cannot fail.
        let _ = write!(text, "<tspan x=\"50%\" dy=\"{down}\">{line}</tspan>");
    }
    let before = higher(before, room);
    let after = ["details", "matched"]
        .into_iter()
        .fold(after.to_owned(), |after, id| moved(&after, id, room));
    let after = after.replacen(
        "<svg id=\"frames\"",
        &format!("<svg id=\"frames\" y=\"{room}\""),
        1,
    );
    format!("{before}<text id=\"subtitle\"{attributes}>{text}</text>{after}")
}

/// The begin of a picture that is so much higher: the image, its view box, and its background.
pub(super) fn higher(before: &str, room: usize) -> String {
    let [is, becomes] = [height(before), height(before) + room];
    before
        .replace(
            &format!(" height=\"{is}\""),
            &format!(" height=\"{becomes}\""),
        )
        .replace(&format!(" {is}\" xmlns"), &format!(" {becomes}\" xmlns"))
}

/// The height of a picture by its begin, in pixels.
pub(super) fn height(before: &str) -> usize {
    let height = before.split_once(" height=\"").and_then(|(_, rest)| {
        let (height, _) = rest.split_once('"')?;
        height.parse().ok()
    });
    height.unwrap_or(0)
}

/// The text with such an identifier so much further down.
fn moved(svg: &str, id: &str, by: usize) -> String {
    let parts = svg.split_once(&format!("<text id=\"{id}\""));
    let parts = parts.and_then(|(before, rest)| Some((before, rest.split_once(" y=\"")?)));
    let moved = parts.and_then(|(before, (attributes, rest))| {
        let (y, rest) = rest.split_once('"')?;
        let y = y.parse::<f64>().ok()? + by as f64;
        Some(format!(
            "{before}<text id=\"{id}\"{attributes} y=\"{y:.2}\"{rest}"
        ))
    });
    moved.unwrap_or_else(|| svg.to_owned())
}

/// A text in lines of at most [`WIDEST`] characters, broken at blanks where it has some.
pub(super) fn lines(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        let wide = word.chars().count();
        if let Some(line) = lines.last_mut()
            && line.chars().count() + 1 + wide <= WIDEST
        {
            line.push(' ');
            line.push_str(word);
            continue;
        }
        let characters: Vec<char> = word.chars().collect();
        lines.extend(characters.chunks(WIDEST).map(|part| part.iter().collect()));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_end_at_blanks_and_are_never_wider_than_narrow_screens() {
        assert_eq!(lines("short"), ["short"]);
        let long = format!("A: {}; B: b, 12 samples", "x".repeat(60));
        let broken = lines(&long);
        assert!(broken.iter().all(|it| it.chars().count() <= WIDEST));
        assert_eq!(broken.concat().replace(' ', ""), long.replace(' ', ""));
        let words = lines(&["seven12"; 20].join(" "));
        assert!(words.len() == 4 && words.iter().all(|it| it.starts_with("seven12")));
    }

    #[test]
    fn all_below_the_subtitle_moves_down() {
        let svg = "<svg width=\"1200\" height=\"100\" viewBox=\"0 0 1200 100\" xmlns=\"x\"><rect height=\"100\"/>\
                   <text id=\"subtitle\" x=\"50.0000%\" y=\"48.00\">all</text>\
                   <text id=\"details\" x=\"10.00\" y=\"64.00\"> </text>\
                   <text id=\"search\" x=\"1190.00\" y=\"24.00\">Search</text>\
                   <text id=\"matched\" x=\"1190.00\" y=\"89.00\"> </text>\
                   <svg id=\"frames\" x=\"10\"></svg></svg>";
        assert_eq!(wrapped(svg.to_owned(), "all"), svg);
        let more = wrapped(svg.to_owned(), &["a <wide> word"; 10].join(" "));
        assert!(
            more.contains("height=\"132\" viewBox=\"0 0 1200 132\""),
            "{more}"
        );
        assert!(more.contains("<rect height=\"132\"/>"), "{more}");
        assert_eq!(more.matches("&lt;wide&gt;").count(), 10);
        assert_eq!(more.matches("<tspan x=\"50%\" dy=\"16\">").count(), 2);
        for moved in [
            "id=\"details\" x=\"10.00\" y=\"96.00\"",
            "id=\"search\" x=\"1190.00\" y=\"24.00\"",
            "id=\"matched\" x=\"1190.00\" y=\"121.00\"",
            "<svg id=\"frames\" y=\"32\" x=\"10\">",
        ] {
            assert!(more.contains(moved), "{moved}: {more}");
        }
    }
}
