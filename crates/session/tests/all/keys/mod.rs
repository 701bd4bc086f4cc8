//! `docs/keys.md` lists every key of an experiment, made from the types that read it: name and meaning from the
//! sources, default from what an empty table becomes, and an example that is read here. `make keys` writes it again and
//! keeps its examples; those of new keys are their types'.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use experiment::Experiment;
use serde_json::Value;
use syn::parse::ParseStream;
use syn::punctuated::Punctuated;
use syn::{Attribute, Expr, Ident, Item, LitStr, Meta, Token, Type, Visibility};

/// Set to anything, it writes the page instead of comparing it.
const RENEW: &str = "BELLOWS_RENEW_KEYS";

const INTRODUCTION: &str = include_str!("introduction.txt");

/// Tables of an experiment: heading, the type that reads it, and a file with that table alone.
static TABLES: LazyLock<Vec<[&str; 3]>> = LazyLock::new(|| testkit::table(include_str!("tables.txt")));

fn kept_example(page: &str, title: &str, key: &str) -> Option<String> {
    let section = page.split("\n## ").find(|it| it.lines().next() == Some(title))?;
    let row = section.lines().find_map(|row| row.strip_prefix(&*format!("| `{key}` | ")))?;
    let example = row.split(" | ").nth(2)?.trim_matches('`');
    Some(example.strip_prefix(&*format!("{key} = "))?.replace("\\|", "|"))
}

/// Path of a heading's table; empty for the file itself.
fn place(heading: &str) -> &str {
    if heading.starts_with('[') { heading.trim_matches(['[', ']']) } else { "" }
}

/// Name of a type in a file, and an example; the types of [`TABLES`] have neither.
static TYPES: LazyLock<Vec<[&str; 3]>> = LazyLock::new(|| testkit::table(include_str!("types.txt")));

#[test]
fn the_page_of_keys_is_up_to_date() {
    let sources = sources();
    let path = workspace().join("docs/keys.md");
    let kept = fs::read_to_string(&path).unwrap_or_default();
    let mut page = INTRODUCTION.to_owned();
    for [heading, of, file] in TABLES.iter() {
        let defaults = read(file);
        let parts = place(heading).split('.').filter(|part| !part.is_empty());
        let of_empty = parts.fold(&defaults, |of, part| of[part].get(0).unwrap_or(&of[part]));
        let title = if place(heading).is_empty() { (*heading).to_owned() } else { format!("`{heading}`") };
        let mut rows = String::new();
        let keys = keys(of, &sources);
        for key in &keys {
            let default = match file.contains(&format!("{} = ", key.name)) {
                true => required(key, &keys),
                false => default(of_empty, key),
            };
            let example = kept_example(&kept, &title, &key.name);
            let example = example_row(file, key, example, default == "`true`");
            let words = words(&key.of);
            let _ = writeln!(rows, "| `{}` | {words} | {default} | {example} | {} |", key.name, key.meaning);
        }
        let _ = write!(
            page,
            "\n## {title}\n\n| key | type | default | example | meaning |\n| --- | --- | --- | --- | --- |\n{rows}"
        );
    }
    if std::env::var_os(RENEW).is_some() {
        fs::write(&path, page).expect("docs/keys.md");
        return;
    }
    assert!(kept == page, "docs/keys.md is not what the types say: make keys");
}

/// The command line that is archived, and those that `limit` suggests, hid paths: nobody could run them again.
#[test]
fn what_an_archived_command_shows_of_a_broker_follows_the_types_of_its_keys() {
    for key in keys("BrokerSpec", &sources()) {
        let is_shown = web::redact::assignment(&format!("broker.{}=x", key.name)).ends_with("=x");
        match key.of.as_str() {
            "Secret" => assert!(!is_shown, "{}", key.name),
            "String" | "Vec<String>" => {}
            of => assert!(is_shown || words(of).starts_with("table"), "{}", key.name),
        }
    }
}

/// The text for a required key, and the key that may stand in its place.
fn required(key: &Key, all: &[Key]) -> String {
    let place = format!("in place of `{}`", key.name);
    let other = all.iter().find(|it| it.meaning.contains(&place));
    other.map_or_else(|| "required".to_owned(), |it| format!("required, or `{}`", it.name))
}

struct Key {
    name: String,
    /// The field's type without `Option`.
    of: String,
    is_optional: bool,
    meaning: String,
}

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(file: &str) -> Value {
    let experiment = Experiment::from_toml(file, "keys").expect(file);
    serde_json::to_value(experiment).expect("JSON")
}

struct Declared {
    attrs: Vec<Attribute>,
    ident: String,
    ty: Type,
}

/// Docs and keys in the files that hold an experiment's types.
#[derive(Default)]
struct Sources {
    structs: BTreeMap<String, Vec<Declared>>,
    /// Keys of each `flat_table!`, with the fields that lead to their values.
    flat: BTreeMap<String, Vec<(String, Vec<String>)>>,
}

fn sources() -> Sources {
    let mut found = Sources::default();
    for folder in ["experiment/src", "plan/src", "broker/src/faults"] {
        let folder = workspace().join("crates").join(folder);
        for entry in fs::read_dir(&folder).expect("folder").flatten() {
            if entry.path().extension().is_none_or(|it| it != "rs") {
                continue;
            }
            let text = fs::read_to_string(entry.path()).expect("source");
            let file = syn::parse_file(&text).expect("Rust");
            for item in file.items {
                match item {
                    Item::Struct(item) => {
                        let fields = item.fields.into_iter().filter_map(|field| {
                            let (attrs, ident, ty) = (field.attrs, field.ident?.to_string(), field.ty);
                            Some(Declared { attrs, ident, ty })
                        });
                        found.structs.insert(item.ident.to_string(), fields.collect());
                    }
                    Item::Macro(item) if item.mac.path.is_ident("flat_table") => {
                        let (of, fields, keys) = item.mac.parse_body_with(flat_table).expect("a table");
                        found.structs.insert(of.clone(), fields);
                        found.flat.insert(of, keys);
                    }
                    _ => {}
                }
            }
        }
    }
    found
}

/// Keys, each with the fields that lead to its value.
type FlatKeys = Vec<(String, Vec<String>)>;

/// The struct, its fields, and its keys: `pub struct LoadSpec { "rate" rate: Option<Rate> = None, … }`, and behind it
/// `inside { "exchange" => queue.exchange, … }`.
fn flat_table(input: ParseStream<'_>) -> syn::Result<(String, Vec<Declared>, FlatKeys)> {
    input.call(Attribute::parse_outer)?;
    input.parse::<Visibility>()?;
    input.parse::<Token![struct]>()?;
    let of = input.parse::<Ident>()?.to_string();
    let (mut fields, mut keys) = (Vec::new(), Vec::new());
    let rows;
    syn::braced!(rows in input);
    while !rows.is_empty() {
        let attrs = rows.call(Attribute::parse_outer)?;
        let key = rows.peek(LitStr).then(|| rows.parse::<LitStr>()).transpose()?;
        let ident = rows.parse::<Ident>()?.to_string();
        rows.parse::<Token![:]>()?;
        let ty = rows.parse()?;
        rows.parse::<Option<Token![as]>>()?.map(|_| rows.parse::<Ident>()).transpose()?;
        rows.parse::<Token![=]>()?;
        rows.parse::<Expr>()?;
        rows.parse::<Token![,]>()?;
        keys.extend(key.map(|key| (key.value(), vec![ident.clone()])));
        fields.push(Declared { attrs, ident, ty });
    }
    if !input.is_empty() {
        input.parse::<Ident>()?;
        let rows;
        syn::braced!(rows in input);
        while !rows.is_empty() {
            let key = rows.parse::<LitStr>()?.value();
            rows.parse::<Token![=>]>()?;
            let place = Punctuated::<Ident, Token![.]>::parse_separated_nonempty(&rows)?;
            rows.parse::<Option<Token![as]>>()?.map(|_| rows.parse::<Ident>()).transpose()?;
            rows.parse::<Token![,]>()?;
            keys.push((key, place.iter().map(Ident::to_string).collect()));
        }
    }
    Ok((of, fields, keys))
}

fn fields<'a>(of: &str, sources: &'a Sources) -> &'a [Declared] {
    let fields = sources.structs.get(of);
    fields.unwrap_or_else(|| panic!("no struct {of}"))
}

fn keys(of: &str, sources: &Sources) -> Vec<Key> {
    if let Some(flat) = sources.flat.get(of) {
        let keys = flat.iter().map(|(name, place)| {
            let mut within = of.to_owned();
            let mut found = None;
            for part in place {
                let field = fields(&within, sources)
                    .iter()
                    .find(|field| field.ident == *part)
                    .unwrap_or_else(|| panic!("{within} has no {part}"));
                within = tokens(&field.ty);
                found = Some(field);
            }
            key(found.expect("a field"), name.clone())
        });
        return keys.collect();
    }
    let mut keys = Vec::new();
    for field in fields(of, sources) {
        let serde = attribute(&field.attrs);
        let ident = field.ident.clone();
        if serde.contains("flatten") {
            keys.extend(self::keys(&key(field, ident).of, sources));
        } else if !serde.split(',').any(|part| part.trim() == "skip") {
            let renamed = serde
                .split_once("rename = \"")
                .and_then(|(_, rest)| rest.split_once('"'))
                .map(|(name, _)| name.to_owned());
            let name = renamed.unwrap_or_else(|| ident.trim_start_matches("r#").replace('_', "-"));
            keys.push(key(field, name));
        }
    }
    keys
}

fn key(field: &Declared, name: String) -> Key {
    let written = tokens(&field.ty);
    let inner = written.strip_prefix("Option<").and_then(|it| it.strip_suffix('>'));
    Key { name, is_optional: inner.is_some(), of: inner.unwrap_or(&written).to_owned(), meaning: meaning(&field.attrs) }
}

fn attribute(attrs: &[Attribute]) -> String {
    let lists = attrs.iter().filter_map(|attr| match &attr.meta {
        Meta::List(list) if list.path.is_ident("serde") => Some(list.tokens.to_string()),
        _ => None,
    });
    lists.collect::<Vec<_>>().join(",")
}

/// The doc comment, in one line, as a cell of a table.
fn meaning(attrs: &[Attribute]) -> String {
    let lines = attrs.iter().filter_map(|attr| match &attr.meta {
        Meta::NameValue(pair) if pair.path.is_ident("doc") => match &pair.value {
            Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(text), .. }) => Some(text.value().trim().to_owned()),
            _ => None,
        },
        _ => None,
    });
    let text = lines.collect::<Vec<_>>().join(" ");
    text.split("  ").next().unwrap_or_default().replace("[`", "`").replace("`]", "`").replace('|', "\\|")
}

fn tokens(of: &Type) -> String {
    let Type::Path(path) = of else { return String::new() };
    let parts = path.path.segments.iter().map(|segment| {
        let syn::PathArguments::AngleBracketed(all) = &segment.arguments else { return segment.ident.to_string() };
        let inner = all.args.iter().map(|argument| match argument {
            syn::GenericArgument::Type(inner) => tokens(inner),
            _ => String::new(),
        });
        format!("{}<{}>", segment.ident, inner.collect::<Vec<_>>().join(","))
    });
    parts.collect::<Vec<_>>().join("::")
}

fn words(of: &str) -> String {
    let one = of.strip_prefix("Vec<").and_then(|it| it.strip_suffix('>')).unwrap_or(of);
    let table = TABLES.iter().find(|[heading, of, _]| *of == one && heading.starts_with('['));
    if let Some([heading, ..]) = table {
        let tables = if heading.starts_with("[[") { "tables" } else { "table" };
        return format!("{tables} `{heading}`");
    }
    let found = TYPES.iter().find(|[name, ..]| *name == of);
    found.unwrap_or_else(|| panic!("types.txt does not say what {of} is"))[1].to_owned()
}

fn default(table: &Value, key: &Key) -> String {
    match table.get(&key.name) {
        _ if words(&key.of).starts_with("table") => String::new(),
        Some(Value::Null) | None if key.of == "bool" && !key.is_optional => "`false`".to_owned(),
        Some(Value::Null) | None => String::new(),
        Some(Value::String(text)) if text.is_empty() => String::new(),
        Some(value) => format!("`{value}`"),
    }
}

/// An example, which is read; its type's where none is kept.
fn example_row(file: &str, key: &Key, kept: Option<String>, is_true: bool) -> String {
    let of_type = TYPES.iter().find(|[name, ..]| *name == key.of).map_or("", |[_, _, example]| *example);
    let of_type = if is_true { "false" } else { of_type };
    let example = kept.unwrap_or_else(|| of_type.to_owned());
    if example.is_empty() {
        return String::new();
    }
    let line = format!("{} = {example}\n", key.name);
    let others = file.lines().filter(|line| !line.starts_with(&format!("{} = ", key.name)));
    let file: String = others.map(|line| format!("{line}\n")).chain([line.clone()]).collect();
    if let Err(error) = Experiment::from_toml(&file, "keys") {
        panic!("{line}: {error}");
    }
    format!("`{}`", line.trim_end().replace('|', "\\|"))
}
