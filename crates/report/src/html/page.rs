//! The document: a static summary for those without scripts, the data, the program.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;
use measure::{LatencySummary, Nanos, Problem, Summaries};
use serde::Serialize;
use sha2::{Digest as _, Sha256};

use crate::redact::{Redaction, push_visible};
use crate::view::{RunPage, RunView};

const PROGRAM: &str = include_str!("../../assets/report.js");
const STYLE: &str = include_str!("../../assets/report.css");

/// Parts of a document.
pub(super) struct Document<'a, V> {
    /// Title of the page.
    pub(super) name: &'a str,
    /// View that the program draws: `run`, `comparison` or `limit`.
    pub(super) kind: &'static str,
    /// Text until the program has started, and where scripts are off.
    pub(super) summary: String,
    /// The data.
    pub(super) view: &'a V,
    /// Data too large for JSON.
    pub(super) columns: &'a [u8],
}

impl<'a, V> Document<'a, V> {
    pub(super) fn new(kind: &'static str, name: &'a str, summary: String, view: &'a V) -> Self {
        Self { name, kind, summary, view, columns: &[] }
    }
}

pub(super) fn document(page: &RunPage) -> Result<String, Problem> {
    write(&parts(page))
}

fn parts(page: &RunPage) -> Document<'_, RunView> {
    let run = &page.run;
    Document { columns: &page.columns, ..Document::new("run", &run.name, static_summary(run), run) }
}

/// The whole document of a run, without names.
pub(super) fn redacted(page: &mut RunPage, dir: &Path, redaction: &mut Redaction) -> Result<String, Problem> {
    redaction.note_run(&mut page.run, dir);
    write_redacted(&parts(page), redaction)
}

/// Any whole document, without the names that were noted.
pub(super) fn write_redacted<V: Serialize>(of: &Document<'_, V>, redaction: &mut Redaction) -> Result<String, Problem> {
    let view = redaction.data(of.view)?;
    write(&Document {
        name: &redaction.text(of.name),
        kind: of.kind,
        summary: redaction.html(&of.summary)?,
        view: &view,
        columns: of.columns,
    })
}

/// Any whole document.
pub(super) fn write<V: Serialize>(of: &Document<'_, V>) -> Result<String, Problem> {
    let payload = pack(of.view, of.columns)?;
    let mut out = String::with_capacity(payload.len() + PROGRAM.len() + STYLE.len() + 8_192);
    // Only the embedded program and style sheet may act, and nothing may be fetched.
    let policy = format!(
        "default-src 'none'; script-src {}; style-src {}; img-src data: blob:; base-uri 'none'; \
         form-action 'none'",
        source_hash(PROGRAM),
        source_hash(STYLE),
    );
    // Base64 cannot end a comment, which browsers read quicker than text.
    let name = escape(of.name);
    let Document { kind, summary, .. } = of;
    let _ = write!(
        out,
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"generator\" content=\"bellows\">\n\
         <title>{name} · bellows</title>\n<style>{STYLE}</style>\n</head>\n<body>\n\
         <div id=\"app\">{summary}</div>\n\
         <div id=\"data\" data-page=\"{kind}\" hidden><!--{payload}--></div>\n\
         <script>{PROGRAM}</script>\n</body>\n</html>\n",
    );
    Ok(out)
}

/// A source expression of the content security policy: the hash of an inline text.
fn source_hash(text: &str) -> String {
    format!("'sha256-{}'", STANDARD.encode(Sha256::digest(text)))
}

/// `json length (4 bytes, little endian) | json | columns`, gzipped, in base64.
fn pack(view: &impl Serialize, columns: &[u8]) -> Result<String, Problem> {
    let failed = |error: &dyn std::fmt::Display| {
        Problem::new("cannot pack the report's data", error, "run it again with a shorter measured phase")
    };
    let json = serde_json::to_vec(view).map_err(|e| failed(&e))?;
    let length = u32::try_from(json.len()).map_err(|_| failed(&"more than 4 GB of text"))?;
    let mut gzip = GzEncoder::new(Vec::new(), Compression::new(7));
    let packed = gzip
        .write_all(&length.to_le_bytes())
        .and_then(|()| gzip.write_all(&json))
        .and_then(|()| gzip.write_all(columns))
        .and_then(|()| gzip.finish())
        .map_err(|e| failed(&e))?;
    Ok(STANDARD.encode(packed))
}

/// Sentence, warnings and percentiles as plain HTML, until the program has started and where scripts are off.
fn static_summary(run: &RunView) -> String {
    let sentence: String = run.headline.iter().map(|it| it.text.as_str()).collect();
    let mut out = head(&run.name, &sentence);
    if run.warnings.is_empty() {
        out.push_str("<p class=\"fine\"><b>No warnings.</b></p>");
    }
    out += &cautions(run.warnings.iter().map(|it| &it.text));
    let figures = &run.figures;
    let scenarios = figures.scenarios.values().map(|it| &it.latency);
    let all = std::iter::once(&figures.latency).chain(scenarios);
    let rows = all.flat_map(Summaries::filled).map(|(metric, latency)| {
        let values = latency.percentile_values().into_iter().chain([latency.max_ns]);
        std::iter::once(metric.name().to_owned()).chain(values.map(|ns| Nanos(ns).to_string())).collect()
    });
    let heads = [&[""][..], &LatencySummary::PERCENTILES.map(|(_, name)| name), &["max"]].concat();
    out + &table("Charts, flame graph and tables need JavaScript", &heads, rows)
}

/// A remark on that which `needs` scripts, and a table whose rows begin with their names.
pub(super) fn table(needs: &str, heads: &[&str], rows: impl Iterator<Item = Vec<String>>) -> String {
    let cell = |tag: &str, text: &str| format!("<{tag}>{}</{tag}>", escape(text));
    let heads: String = heads.iter().map(|it| cell("th", it)).collect();
    let row = |row: Vec<String>| {
        let tags = std::iter::once("th").chain(std::iter::repeat("td"));
        let cells: String = tags.zip(&row).map(|(tag, text)| cell(tag, text)).collect();
        format!("<tr>{cells}</tr>")
    };
    let rows: String = rows.map(row).collect();
    format!(
        "<noscript><p>{needs}; nothing is loaded from anywhere.</p></noscript><table><thead><tr>{heads}</tr></thead>\
         <tbody>{rows}</tbody></table>"
    )
}

/// A page's name and its first sentence.
pub(super) fn head(name: &str, headline: &str) -> String {
    let (name, headline) = (escape(name), escape(headline));
    format!("<h1>{name}</h1><p class=\"headline\">{headline}</p>")
}

/// Doubts about a page's figures, as a list; empty without any.
pub(super) fn cautions<'a>(all: impl Iterator<Item = &'a String>) -> String {
    let items: String = all.map(|it| format!("<li>{}</li>", escape(it))).collect();
    match items.as_str() {
        "" => items,
        _ => format!("<ul class=\"warnings\">{items}</ul>"),
    }
}

/// Text as HTML, control and direction characters as symbols.
pub(super) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            other => push_visible(&mut out, other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_text_and_cannot_hide() {
        assert_eq!(escape("<b onload='x'>&\""), "&lt;b onload=&#39;x&#39;&gt;&amp;&quot;");
        assert_eq!(escape("a\u{1b}[31m\u{202e}b"), "a␛[31m⟨U+202E⟩b");
    }

    #[test]
    fn the_embedded_texts_cannot_end_their_own_elements() {
        assert!(!PROGRAM.to_ascii_lowercase().contains("</script"));
        assert!(!PROGRAM.contains("<!--"));
        assert!(!STYLE.to_ascii_lowercase().contains("</style"));
        // Nothing asks for the network.
        for word in ["fetch(", "XMLHttpRequest", "WebSocket", "import(", "@import", "url(http"] {
            assert!(!PROGRAM.contains(word) && !STYLE.contains(word), "{word}");
        }
    }
}
