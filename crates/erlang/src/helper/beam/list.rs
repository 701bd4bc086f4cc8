// Written by scripts/helper.
(
    "b9f8940a",
    &[
        ("calls", include_bytes!("calls.beam")),
        ("guard", include_bytes!("guard.beam")),
        ("keeper", include_bytes!("keeper.beam")),
        ("role", include_bytes!("role.beam")),
        ("session", include_bytes!("session.beam")),
        ("text", include_bytes!("text.beam")),
        ("trace", include_bytes!("trace.beam")),
        ("tree", include_bytes!("tree.beam")),
    ],
)
