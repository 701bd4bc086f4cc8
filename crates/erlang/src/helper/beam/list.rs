// Written by scripts/helper.
(
    "3283324e",
    &[
        ("keeper", include_bytes!("keeper.beam")),
    ],
)
