// Written by scripts/helper.
(
    "d8c2ecb6",
    &[
        ("guard", include_bytes!("guard.beam")),
        ("keeper", include_bytes!("keeper.beam")),
        ("role", include_bytes!("role.beam")),
        ("session", include_bytes!("session.beam")),
        ("text", include_bytes!("text.beam")),
        ("trace", include_bytes!("trace.beam")),
    ],
)
