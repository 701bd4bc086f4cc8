// Written by scripts/helper.
(
    "5bccc837",
    &[
        ("alloc", include_bytes!("alloc.beam")),
        ("calls", include_bytes!("calls.beam")),
        ("guard", include_bytes!("guard.beam")),
        ("keeper", include_bytes!("keeper.beam")),
        ("queues", include_bytes!("queues.beam")),
        ("role", include_bytes!("role.beam")),
        ("session", include_bytes!("session.beam")),
        ("text", include_bytes!("text.beam")),
        ("top", include_bytes!("top.beam")),
        ("trace", include_bytes!("trace.beam")),
        ("tree", include_bytes!("tree.beam")),
    ],
)
