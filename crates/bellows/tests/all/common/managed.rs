//! Real brokers that tests start.

use std::ffi::OsString;
use std::net::{TcpListener, TcpStream};

use session::brokers::rabbitmq::{Config, RabbitMq};
use session::guardian;

/// A RabbitMQ with the management API, and that API's port.
pub(crate) fn with_management() -> (RabbitMq, u16) {
    let free = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = free.local_addr().expect("an address").port();
    drop(free);
    let exe = OsString::from(env!("CARGO_BIN_EXE_bellows"));
    let listen = [
        ("management.tcp.port".to_owned(), port.to_string()),
        ("management.tcp.ip".to_owned(), "127.0.0.1".to_owned()),
    ];
    let config = Config {
        plugins: vec!["rabbitmq_management".to_owned()],
        settings: listen.into(),
        guard: vec![exe, guardian::SUBCOMMAND.into()],
        ..Config::default()
    };
    let node = RabbitMq::start(&config, &mut |_| {}, &|| false).expect("a managed RabbitMQ");
    super::wait_for("the management API", || {
        TcpStream::connect(("127.0.0.1", port)).is_ok()
    });
    (node, port)
}
