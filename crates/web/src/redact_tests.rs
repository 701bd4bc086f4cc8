//! Secrets, addresses and names as they are shown.

use super::*;

#[test]
fn passwords_in_text_are_hidden() {
    for [given, kept] in testkit::table(include_str!("../tests/data/redact/text.txt")) {
        assert_eq!(text(given), kept);
    }
}

#[test]
fn passwords_in_words_are_hidden() {
    let given = r#"bellows client --password s3cret --user me --password=s3cret --password --s3cret --consumer-url
        amqp://a:s3cret@b --set broker.password=s3cret --auth-token s3cret -o2sec s3cret -o2secs3cret --oauth2-client-s
        s3cret --oauth2-client-sec=s3cret -o2p client_assertion=s3cret -setcookie s3cret default_pass <<"s3cret">>
        application:set_env(rabbit,default_pass,<<"s3cret">>) queue://x"#;
    let given: Vec<String> = given.split_whitespace().map(str::to_owned).collect();
    let kept = words(&given);
    assert!(!kept.join(" ").contains("s3cret"), "{kept:?}");
    assert_eq!(kept.len(), given.len());
    assert_eq!(kept[11..13], ["--set", "broker.password=***"]);
    assert_eq!(kept.last().map(String::as_str), Some("queue://x"));
}

/// The file with the login to a fleet was hidden, so that nobody could run the command again.
#[test]
fn of_an_own_command_a_secret_is_hidden_and_the_path_of_its_file_is_not() {
    let shown = |line: &str| own_command(&line.split(' ').map(str::to_owned).collect::<Vec<_>>()).join(" ");
    let paths = "bellows run x --fleet-credentials /home/me/fleet/login --password-file login --cookie-file c.txt";
    assert_eq!(shown(paths), paths);
    assert_eq!(shown("bellows run x --auth-token s3cret"), "bellows run x --auth-token ***");
}

#[test]
fn of_a_url_only_what_is_no_secret_is_shown() {
    for [given, kept] in testkit::table(include_str!("../tests/data/redact/url.txt")) {
        assert_eq!(url(given), kept);
    }
}

#[test]
fn names_that_somebody_else_chose_are_hidden_in_doubt() {
    for name in ["MY_LDAP_PASS", "RABBITMQ_DEFAULT_PASS", "RABBITMQ_ENCRYPTION_KEY", "ANYTHING"] {
        assert_eq!(variable(name, "s3cret"), BLOT, "{name}");
    }
    assert_eq!(variable("RABBITMQ_LOGS", "-"), "-");
    assert_eq!(variable("RABBITMQ_SERVER_ERL_ARGS", "-setcookie s3cret"), "-setcookie ***");
    assert_eq!(variable("RABBITMQ_SERVER_ERL_ARGS", "-kernel a=b -setcookie s3cret"), "-kernel a=b -setcookie ***");
    for key in ["anonymous_login_pass", "auth_ldap.bind.pwd", "x.key", "a.jwt"] {
        assert_eq!(value(key, "s3cret"), BLOT, "{key}");
    }
    assert_eq!(value("vm_memory_high_watermark.relative", "0.4"), "0.4");
}

#[test]
fn changes_of_an_experiment_are_shown_where_they_hold_no_secret() {
    for [given, kept] in testkit::table(include_str!("../tests/data/redact/assignment.txt")) {
        assert_eq!(assignment(given), kept);
    }
}

#[test]
fn headers_and_arguments_hide_what_logs_in_by_key_and_by_form() {
    for [key, given] in testkit::table(include_str!("../tests/data/redact/argument.txt")) {
        assert_eq!(argument(key, given), "***", "{key} {given}");
    }
    for [key, given] in testkit::table(include_str!("../tests/data/redact/plain-argument.txt")) {
        assert_eq!(argument(key, given), given);
    }
}

#[test]
fn what_is_within_addresses_and_lists_is_hidden() {
    for [given, kept] in testkit::table(include_str!("../tests/data/redact/within.txt")) {
        assert_eq!(argument("a", given), kept);
    }
    for (given, kept) in [
        ("a=1,b=2", "a=1,b=2"),
        ("a=Bearer x,s3cret", "a=***,***"),
        ("a={\"b\":1,\"password\":\"s3cret\"}", "a={\"b\":1,***"),
        ("a=[1,2]", "a=[1,2]"),
    ] {
        assert_eq!(arguments(given), kept);
    }
}

#[test]
fn commands_and_flags_of_an_experiment_stay_readable_when_they_are_hidden_twice() {
    for [given, shown] in testkit::table(include_str!("../tests/data/redact/twice.txt")) {
        assert_eq!(assignment(given), shown);
        assert_eq!(text(shown), shown);
    }
    let name = "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS";
    assert_eq!(variable(name, "+sbt db -setcookie x"), "+sbt db -setcookie ***");
    assert_eq!(variable(name, "+sbt db -setcookie 'x y'"), "+sbt *** -setcookie '***'");
}

/// A refusal that quotes commands lost the ends of their lists.
#[test]
fn an_address_without_a_host_keeps_what_ends_its_list() {
    let given = r#"["x", "amqp://me:s3cret"] and ["y", "amqp://$HOST:$PORT"]"#;
    assert_eq!(urls(given), r#"["x", "amqp://me:***"] and ["y", "amqp://$HOST:***"]"#);
    // A queue of an address has no login; the rest of a careless password may look like one.
    assert_eq!(urls("\"topic://a::b\" names one queue"), "\"topic://a::b\" names one queue");
    assert_eq!(urls("amqp10://me:a/queue://x:y@h"), "amqp10://me:***://x:***@h");
}

#[test]
fn what_is_hidden_in_words_is_known_as_a_program_may_repeat_it() {
    for [given, secret] in testkit::table(include_str!("../tests/data/redact/repeated.txt")) {
        let given: Vec<String> = given.split(' ').map(|it| it.replace('|', " ")).collect();
        let (shown, secrets) = words_and_secrets(&given);
        assert!(secrets.iter().any(|it| it == secret), "{given:?} is shown as {shown:?}: {secrets:?}");
    }
    let (_, secrets) = words_and_secrets(&["curl", "-v", "http://h"].map(str::to_owned));
    assert_eq!(secrets, [""; 0]);
    let script = ["sh", "-c", "'x' --password=s3cret; sleep 3"].map(str::to_owned);
    assert_eq!(words_and_secrets(&script).1, ["s3cret"]);
}

#[test]
fn short_secrets_are_hidden_where_no_letter_is_beside_them() {
    for (given, kept) in [
        ("a-b", "***"),
        ("is a-b, not xa-b or a-by", "is ***, not xa-b or a-by"),
        ("(a-b) a-b", "(***) ***"),
        ("a-ba-b", "a-ba-b"),
    ] {
        assert_eq!(without(given, "a-b", BLOT), kept);
    }
}

#[test]
fn what_a_server_repeats_is_hidden_wherever_it_is_cut_off() {
    for secret in ["swordfish", "dTpzd29yZGZpc2g=", "pässwörd-ß", "a b\tc"] {
        let whole = format!("wrong login {secret}, says {secret} and more");
        for end in 0..=whole.len() {
            let cut = String::from_utf8_lossy(&whole.as_bytes()[..end]).into_owned();
            let said = repeated(&cut, [secret.to_owned(), String::new()]);
            let mut starts = (SAYS_NOTHING + 1..=secret.len()).filter_map(|at| secret.get(..at));
            assert_eq!(starts.find(|start| said.contains(start)), None, "{cut:?} became {said:?}");
            assert!(said.starts_with(&"wrong login "[..said.len().min(12)]), "{said:?}");
        }
    }
    assert_eq!(credentials(Some("Basic dTpw")).as_deref(), Some("dTpw"));
}
