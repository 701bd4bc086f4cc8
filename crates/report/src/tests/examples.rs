//! The pages of `docs/examples`: each is one file that loads nothing, small enough for a slow line, with readable data;
//! and texts about it name the file and its picture.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use archive::{ComparedFigure, Comparison, PairedRuns};
use base64::Engine as _;
use sha2::{Digest as _, Sha256};

const LARGEST: usize = 3 << 20;

fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/examples")
}

fn files(extension: &str) -> Vec<PathBuf> {
    let found = fs::read_dir(examples()).into_iter().flatten().flatten();
    let paths = found.map(|it| it.path());
    paths.filter(|it| it.extension().is_some_and(|it| it == extension)).collect()
}

fn faults(page: &str) -> Vec<String> {
    let mut found = Vec::new();
    if page.len() > LARGEST {
        found.push(format!("{} bytes are more than {LARGEST}", page.len()));
    }
    // The program is no HTML; what it may ask for, the policy says.
    let (before, behind) = page.split_once("<script>").unwrap_or((page, ""));
    let behind = behind.split_once("</script>").map_or("", |it| it.1);
    let elements = [before, behind].into_iter().flat_map(|it| it.split('<').skip(1));
    for element in elements.map(|it| it.split('>').next().unwrap_or_default()) {
        let name = element.split(' ').next().unwrap_or_default();
        // Links are for those who click them.
        let asks = element.contains(" src=") || element.contains(" srcset=");
        let is_frame = ["link", "iframe", "object", "embed", "base"].contains(&name);
        if asks || is_frame {
            found.push(format!("it asks for something: <{element}>"));
        }
    }
    let policy = page.split("Content-Security-Policy\" content=\"").nth(1);
    let policy = policy.and_then(|it| it.split('"').next()).unwrap_or_default();
    if !policy.starts_with("default-src 'none';") {
        found.push(format!("its policy lets something in: {policy:?}"));
    }
    for (kind, begin, end) in [("script", "<script>", "</script>"), ("style", "<style>", "</style>")] {
        let inside = page.split(begin).nth(1).and_then(|it| it.split(end).next());
        let hash = Sha256::digest(inside.unwrap_or_default().as_bytes());
        let hash = base64::engine::general_purpose::STANDARD.encode(hash);
        if !policy.contains(&format!("{kind}-src 'sha256-{hash}'")) {
            found.push(format!("its {kind} is not the one that its policy lets run"));
        }
    }
    let parsed = data(page).and_then(|it| serde_json::from_str::<serde_json::Value>(&it).map_err(|e| e.to_string()));
    found.extend(parsed.err().map(|why| format!("its data cannot be read: {why}")));
    found
}

/// The data of a page, as its program reads it: JSON.
pub(super) fn data(page: &str) -> Result<String, String> {
    let packed = page.split("<!--").nth(1).and_then(|it| it.split("-->").next());
    let packed = packed.ok_or("there is none")?;
    let packed = base64::engine::general_purpose::STANDARD.decode(packed).map_err(|e| e.to_string())?;
    let mut bytes = Vec::new();
    let unpacked = flate2::read::GzDecoder::new(&*packed).read_to_end(&mut bytes);
    unpacked.map_err(|e| e.to_string())?;
    let length = bytes.first_chunk::<4>().ok_or("it is cut off")?;
    let end = u32::from_le_bytes(*length) as usize + 4;
    let json = bytes.get(4..end).ok_or("it is cut off")?;
    String::from_utf8(json.to_vec()).map_err(|e| e.to_string())
}

fn page() -> String {
    let dir = tempfile::tempdir().expect("a folder");
    let pairs = PairedRuns { schema: PairedRuns::SCHEMA.to_owned(), name: "mine".to_owned(), ..PairedRuns::default() };
    pairs.write(dir.path()).expect("written");
    let (schema, figures) = (Comparison::SCHEMA.to_owned(), vec![ComparedFigure::default()]);
    Comparison { schema, figures, ..Comparison::default() }.write(dir.path()).expect("written");
    crate::html::render_pairs(dir.path(), &dir.path().join("report.html")).expect("a page")
}

#[test]
fn every_example_is_one_small_file_that_asks_nobody() {
    for path in files("html") {
        let page = fs::read_to_string(&path).expect("readable");
        let found = faults(&page);
        assert!(found.is_empty(), "{}: {found:#?}", path.display());
        let about = path.with_extension("md");
        assert!(about.is_file(), "{} says nothing of it", about.display());
    }
}

#[test]
fn what_is_written_about_an_example_names_its_page_and_its_picture() {
    for path in files("md") {
        let text = fs::read_to_string(&path).expect("readable");
        let name = path.file_stem().expect("a name").to_string_lossy();
        // The table of `make prove` is about no page.
        if name == "proven" {
            continue;
        }
        for extension in ["html", "png"] {
            let (named, file) = (format!("]({name}.{extension})"), path.with_extension(extension));
            assert!(text.contains(&named) && file.is_file(), "{}: {named}", path.display());
        }
    }
}

#[test]
fn what_a_page_must_not_have_is_found() {
    let page = page();
    assert_eq!(faults(&page), Vec::<String>::new());
    for (from, to, says) in [
        ("<title>", "<link rel=\"icon\" href=\"https://a.example/\"><title>", "asks"),
        ("<title>", "<img src=\"a.png\"><title>", "asks"),
        ("default-src 'none'", "default-src *", "policy"),
        ("<style>", "<style>@import 'https://a.example/';", "style"),
        ("<script>", "<script>fetch('https://a.example/');", "script"),
        ("<!--", "<!--x", "data"),
    ] {
        assert!(page.contains(from), "{from}");
        let found = faults(&page.replacen(from, to, 1));
        assert!(found.iter().any(|it| it.contains(says)), "{to}: {found:?}");
    }
    let large = page.replacen("<title>", &format!("<title>{}", "x".repeat(LARGEST)), 1);
    assert!(faults(&large).iter().any(|it| it.contains("more than")));
}
