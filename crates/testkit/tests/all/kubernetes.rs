//! The manifests of docs/kubernetes by the types of Kubernetes' own API, which drop a misspelt key: what was read and
//! written again has to be what it was.

use std::fs;
use std::path::{Path, PathBuf};

use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::batch::v1::Job;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/kubernetes")
}

fn manifest(name: &str) -> Value {
    let text = fs::read_to_string(folder().join(name)).expect("a manifest");
    serde_yaml_ng::from_str(&text).unwrap_or_else(|why| panic!("{name}: {why}"))
}

fn again<T: DeserializeOwned + Serialize>(value: &Value) -> Result<Value, serde_json::Error> {
    serde_json::to_value(serde_json::from_value::<T>(value.clone())?)
}

/// A resource, as it is after its own type has read it.
fn typed(value: &Value) -> Result<Value, serde_json::Error> {
    match value["kind"].as_str() {
        Some("DaemonSet") => again::<DaemonSet>(value),
        Some("Job") => again::<Job>(value),
        kind => panic!("add the type of {kind:?}"),
    }
}

fn resources() -> Vec<String> {
    let kustomization = manifest("kustomization.yaml");
    let known = ["apiVersion", "kind", "namespace", "resources", "images"];
    let keys = kustomization.as_object().expect("keys").keys();
    assert!(keys.clone().all(|it| known.contains(&it.as_str())), "{kustomization:#}");
    let resources = kustomization["resources"].as_array().expect("resources");
    resources.iter().map(|it| it.as_str().expect("a name").to_owned()).collect()
}

#[test]
fn each_key_of_the_manifests_is_one_of_kubernetes() {
    let resources = resources();
    let files = fs::read_dir(folder()).expect("docs/kubernetes").flatten().count();
    assert_eq!(resources.len() + 1, files, "all of them are named: {resources:?}");
    for name in &resources {
        let value = manifest(name);
        assert_eq!(typed(&value).unwrap_or_else(|why| panic!("{name}: {why}")), value, "{name}");
    }
}

#[test]
fn a_misspelt_key_does_not_survive() {
    for (name, key, misspelt) in [
        ("workers.yaml", "completionMode", "completionmode"),
        ("workers.yaml", "secretKeyRef", "secretkeyRef"),
        ("workers.yaml", "limits", "limit"),
        ("profilers.yaml", "hostPID", "hostPid"),
        ("profilers.yaml", "mountPath", "mountpath"),
    ] {
        let text = manifest(name).to_string();
        assert!(text.contains(key), "{name}: {key}");
        let wrong: Value = serde_json::from_str(&text.replace(key, misspelt)).expect("JSON");
        assert!(typed(&wrong).ok() != Some(wrong), "{name}: {misspelt}");
    }
}
