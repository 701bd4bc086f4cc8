//! Secrets, addresses and names as they are shown.

use super::*;

#[test]
fn passwords_in_text_are_hidden() {
    for (given, kept) in [
        ("amqp://guest:s3cret@host:5672/vhost", "amqp://guest:***@host:5672/vhost"),
        ("amqp://guest:p@ss:w@host", "amqp://guest:***@host"),
        ("amqp://guest:p/w@host", "amqp://guest:***@host"),
        ("amqp://guest:p w#?@host", "amqp://guest:***@host"),
        ("amqp://guest:s3cret", "amqp://guest:***"),
        ("amqp://guest:s3cret/x was lost", "amqp://guest:*** was lost"),
        ("amqp://host:5672/", "amqp://host:5672/"),
        (
            "at http://127.0.0.1:15672/api: 500, from rabbit@db9 and more",
            "at http://127.0.0.1:15672/api: 500, from rabbit@db9 and more",
        ),
        (
            "at http://127.0.0.1:15672/api: lost amqp://me:s3cret@host",
            "at http://127.0.0.1:15672/api: lost amqp://me:***@host",
        ),
        ("at amqp://[::1]:5672", "at amqp://[::1]:5672"),
        ("amqp://user@host/%2F", "amqp://user@host/%2F"),
        (
            "write http://HOST:PORT/PATH or https://HOST:PORT/PATH",
            "write http://HOST:PORT/PATH or https://HOST:PORT/PATH",
        ),
        ("write amqp://USER:PASSWORD@HOST:PORT/VHOST", "write amqp://USER:PASSWORD@HOST:PORT/VHOST"),
        ("http://HOST:s3cret/PORT", "http://HOST:***"),
        ("two http://a:b@c/ and amqp://d:e@f", "two http://a:***@c/ and amqp://d:***@f"),
        ("http://c/x?token=s3cret&y=1", "http://c/x?token=***&y=1"),
        ("broker.password=two, words", "broker.password=***"),
        ("a=1 password='my s3cret' b=2", "a=1 password=*** b=2"),
        ("a=1 password='my s3 cret", "a=1 password=***"),
    ] {
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

#[test]
fn of_a_url_only_what_is_no_secret_is_shown() {
    for (given, kept) in [
        ("amqp://me:a/b@h", "amqp://me@h:5672/"),
        ("https://me:s3cret/x@h:8443/token?a=b", "https://***@h:8443/token?***"),
        ("https://h/token", "https://h/token"),
        ("https://me:s3cret", "***"),
        ("https://[::1]:80/x", "https://[::1]:80/x"),
        ("me:s3cret@h", "***"),
        ("me:1234@h", "***"),
        ("me:s3cret", "***"),
        ("localhost:9418/metrics?a=b", "***"),
        ("localhost:9418/metrics", "localhost:9418/metrics"),
        ("localhost:15672", "localhost:15672"),
        ("amqp://me:s3cret%@h:1", "amqp://***@h:1"),
        ("s3 cret://x", "***"),
    ] {
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
    for (given, kept) in [
        ("load.0.rate=20000", "load.0.rate=20000"),
        ("load.0.routing-key=a", "load.0.routing-key=a"),
        ("broker.tls=true", "broker.tls=true"),
        ("broker.url=amqp://me:s3cret/@h", "broker.url=amqp://me@h:5672/"),
        ("broker.management=http://me:s3cret@h:1", "broker.management=http://***@h:1"),
        ("broker.management-user=me", "broker.management-user=me"),
        ("broker.password=s3cret", "broker.password=***"),
        ("broker.pasword=s3cret", "broker.pasword=***"),
        ("broker.pasword=1234", "broker.pasword=***"),
        ("broker.memory-limit=512MiB", "broker.memory-limit=512MiB"),
        ("broker.passwort=30s", "broker.passwort=***"),
        ("broker.lazy=true", "broker.lazy=true"),
        ("broker={password='s3cret'}", "broker=***"),
        ("load.0={url='amqp://a:s3cret@b'}", "load.0=***"),
        ("broker.advanced=[{a,[{b,<<\"s3cret\">>}]}].", "broker.advanced=[{a,[{b,***}]}]."),
        (
            r#"broker.advanced="[{rabbit,[{credit_flow_default_credit,{0,0}}]}].""#,
            r#"broker.advanced="[{rabbit,[{credit_flow_default_credit,{0,0}}]}].""#,
        ),
        ("broker.advanced=\"[{default_pass,12}].\"", "broker.advanced=\"[{default_pass,***}].\""),
        ("broker.advanced=\"s3cret", "broker.advanced=***"),
        ("broker.advanced='x'\ny='s3cret'", "broker.advanced=***"),
        ("broker.env.MY_LDAP_PASS=s3cret", "broker.env.MY_LDAP_PASS=***"),
        ("broker.config.a.b=1", "broker.config.a.b=1"),
        ("broker.config.anonymous_login_pass=s3cret", "broker.config.anonymous_login_pass=***"),
        ("broker.oauth2.parameters.x=s3cret", "broker.oauth2.parameters.x=***"),
        ("probe.0.headers.Authorization=\"Bearer s3cret\"", "probe.0.headers.Authorization=***"),
        ("probe.0.headers={X-Auth='s3cret'}", "probe.0.headers=***"),
        ("probe.0={name='a', headers={X-Auth='s3cret'}}", "probe.0=***"),
        ("probe.0.rate=5", "probe.0.rate=5"),
        ("load.0.kind=command", "load.0.kind=command"),
        ("load.0.command=['x', '--password', 's3cret']", "load.0.command=[\"x\", \"--password\", \"***\"]"),
        ("load.0={command=['x', '-p', 's3cret']}", "load.0=***"),
        ("load.0.command=['x', '--rate', '5']", "load.0.command=['x', '--rate', '5']"),
        ("load.0.headers.password=s3cret", "load.0.headers.password=***"),
        ("load.0.headers.x-api-key=s3cret", "load.0.headers.x-api-key=***"),
        ("load.0.headers.authorization=\"Bearer s3cret\"", "load.0.headers.authorization=***"),
        ("load.0.headers.login='Basic s3cret'", "load.0.headers.login=***"),
        ("load.0.headers.tenant=a", "load.0.headers.tenant=a"),
        ("load.0.headers={a=1, authorization='B s3cret'}", "load.0.headers=***"),
        ("load.0={headers={authorization='B s3cret'}}", "load.0=***"),
        ("prepare.0.arguments={x-auth='s3cret'}", "prepare.0.arguments=***"),
        ("load.0.arguments.x-dead-letter-routing-key=a", "load.0.arguments.x-dead-letter-routing-key=a"),
        ("load.0.consumer-arguments.x-token=s3cret", "load.0.consumer-arguments.x-token=***"),
        ("load.0.exchange-type=headers", "load.0.exchange-type=headers"),
        ("s3cret", "***"),
    ] {
        assert_eq!(assignment(given), kept);
    }
}

#[test]
fn headers_and_arguments_hide_what_logs_in_by_key_and_by_form() {
    let jwe = "eyJhbGciOiJSU0EifQ.a.b.c.d";
    for (key, given) in [
        ("login", "Token abc"),
        ("login", "ApiKey abc"),
        ("login", "AWS4-HMAC-SHA256 Credential=a/b, Signature=c"),
        ("login", "  eyJhbGciOiJIUzI1NiJ9.e30.sig"),
        ("login", "\" eyJhbGciOiJIUzI1NiJ9.e30.sig\""),
        ("login", jwe),
        ("a", "[\"x\", \"eyJhbGciOiJIUzI1NiJ9.e30.sig\"]"),
        ("x-signature", "abc"),
        ("session-id", "abc"),
        ("sid", "abc"),
        ("nested", "{auth = {user = \"a\", value = \"abc\"}}"),
        ("nested", "{\"auth\":{\"value\":\"abc\"}}"),
        ("nested", "{key = \"abc\"}"),
        ("nested", "{\"a\":{\"key\":\"abc\"}}"),
        ("nested", "{a = [1, {session-id = \"abc\"}]}"),
        ("nested", "{a = \"Token abc\"}"),
        ("login", "-----BEGIN PGP PRIVATE KEY BLOCK----- abc"),
        ("storage.accountKey", "abc"),
        ("AccessKeyId", "abc"),
    ] {
        assert_eq!(argument(key, given), "***", "{key} {given}");
    }
    for (key, given) in [
        ("tenant", "a"),
        ("x-dead-letter-routing-key", "a"),
        ("x-match", "any-with-x"),
        ("nested", "{x-dead-letter-routing-key = \"a\"}"),
        ("nested", "{tenant = \"a\", keys = 3}"),
        ("text", "the token of a.b.c"),
        ("text", "basic"),
    ] {
        assert_eq!(argument(key, given), given);
    }
}

#[test]
fn what_is_within_addresses_and_lists_is_hidden() {
    for (given, kept) in [
        (
            "Endpoint=sb://h/;SharedAccessKeyName=n;SharedAccessKey=s3cret==",
            "Endpoint=sb://h/;SharedAccessKeyName=***;SharedAccessKey=***",
        ),
        ("https://h/a?sv=1&sig=s3cret&se=2", "https://h/a?sv=1&sig=***&se=2"),
        ("https://h/a?key=s3cret", "https://h/a?key=***"),
        ("https://h/a?routing-key=q", "https://h/a?routing-key=q"),
    ] {
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
    for (given, shown) in [
        (
            r#"load.0.command=["sleep","9","tcp://{host}:{port}","--max-pending","5"]"#,
            r#"load.0.command=["sleep","9","tcp://{host}:{port}","--max-pending","5"]"#,
        ),
        (
            r#"load.0.command=["./passthrough", "5", "--password=12", "--rate=5"]"#,
            r#"load.0.command=["./passthrough", "5", "--password=***", "--rate=5"]"#,
        ),
        (
            r#"broker.erlang-args=["+MBas", "aobf", "-setcookie", "x"]"#,
            r#"broker.erlang-args=["+MBas", "aobf", "-setcookie", "***"]"#,
        ),
        (r#"broker.java-args=["-Xmx4G", "-Dpass=12"]"#, r#"broker.java-args=["-Xmx4G", "-Dpass=***"]"#),
    ] {
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
}

#[test]
fn what_is_hidden_in_words_is_known_as_a_program_may_repeat_it() {
    for (given, secret) in [
        ("--password s3cret", "s3cret"),
        ("--password=s3cret", "s3cret"),
        ("-u me:s3cret", "s3cret"),
        ("curl -Hx-key:s3cret", "s3cret"),
        ("--password a-b", "a-b"),
        (r#"{"q":"a=b","password":"s3cret"}"#, "s3cret"),
        ("amqp://a:s3cret@b", "s3cret"),
        ("default_pass <<\"s3cret\">>", "s3cret"),
        ("sh -c x|--password|'s3|cret'", "cret"),
        ("x a=1|'-u'|b|password:|s3cret", "s3cret"),
    ] {
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
