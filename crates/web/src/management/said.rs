//! Reasons of RabbitMQ for refusing something, as text.

use serde_json::Value;

/// Characters of it that are shown.
const MOST_SHOWN: usize = 500;

/// The reason in an answer's body: the field `reason` of an object, in which a text may be a list of numbers, else the
/// body itself.
pub(super) fn reason(body: &[u8]) -> String {
    let parsed = serde_json::from_slice::<Value>(body).ok();
    let reason = parsed.as_ref().and_then(|it| it.get("reason"));
    let text = match reason {
        Some(reason) => text(reason),
        None => String::from_utf8_lossy(body).into_owned(),
    };
    let text = unescaped(&text).replace(char::is_control, " ");
    let mut characters = text.chars();
    let mut shown: String = characters.by_ref().take(MOST_SHOWN).collect();
    if characters.next().is_some() {
        shown.push('…');
    }
    shown
}

/// RabbitMQ writes some reasons for a page.
fn unescaped(text: &str) -> String {
    let text = text.replace("&lt;", "<").replace("&gt;", ">");
    text.replace("&quot;", "\"").replace("&amp;", "&")
}

/// A value as a person writes it.
fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(items) => charlist(items).unwrap_or_else(|| {
            let items: Vec<String> = items.iter().map(text).collect();
            items.join(", ")
        }),
        Value::Object(fields) => {
            let fields = fields.iter();
            let fields: Vec<String> = fields
                .map(|(key, value)| format!("{key}: {}", text(value)))
                .collect();
            fields.join(", ")
        }
        other => other.to_string(),
    }
}

/// The text whose characters Erlang has written as numbers, perhaps with texts between them; `None` for a list of other
/// things.
fn charlist(items: &[Value]) -> Option<String> {
    if !items.iter().any(Value::is_number) {
        return None;
    }
    let mut written = String::new();
    for item in items {
        match item {
            Value::Number(number) => {
                let code = u32::try_from(number.as_u64()?).ok()?;
                let character = char::from_u32(code)?;
                let is_text = !character.is_control() || character.is_ascii_whitespace();
                written.push(is_text.then_some(character)?);
            }
            Value::String(text) => written.push_str(text),
            Value::Array(items) if items.is_empty() => {}
            Value::Array(items) => written.push_str(&charlist(items)?),
            _ => return None,
        }
    }
    Some(written)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_characters_is_text() {
        let said = |body: &str| reason(body.as_bytes());
        let list = r#"{"error":"bad_request","reason":[110,111,32,[34,"v",34],10,"x"]}"#;
        assert_eq!(said(list), "no \"v\" x");
        let refused = r#"{"reason":["amqp_error","command_invalid",[110,111,39],"none"]}"#;
        assert_eq!(said(refused), "amqp_error, command_invalid, no', none");
        let escaped = r#"{"reason":"[{&lt;&lt;\"a\"&gt;&gt;,1}]"}"#;
        assert_eq!(said(escaped), "[{<<\"a\">>,1}]");
        assert_eq!(said(r#"{"reason":"not found"}"#), "not found");
        assert_eq!(said(r#"{"reason":[[110,111],-1]}"#), "no, -1");
        assert_eq!(said(r#"{"reason":{"a":[111,107]}}"#), "a: ok");
        // No numbers of characters, and no answer of RabbitMQ.
        assert_eq!(said(r#"{"reason":[1,2]}"#), "1, 2");
        assert_eq!(said("<html>\n404</html>"), "<html> 404</html>");
        assert_eq!(said(""), "");
        let long = format!(r#"{{"reason":"{}"}}"#, "x".repeat(2_000));
        assert_eq!(said(&long).chars().count(), MOST_SHOWN + 1);
    }
}
