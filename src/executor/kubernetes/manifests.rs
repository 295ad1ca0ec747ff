//! Whether deploy/kubernetes is what the server needs: its policies, rights, settings and limits, each object as the API
//! of a cluster knows it.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use k8s_openapi::api::apps::v1::{DaemonSet, Deployment};
use k8s_openapi::api::core::v1::{
    ConfigMap, LimitRange, Namespace, PersistentVolumeClaim, Pod, ResourceQuota, Service,
    ServiceAccount,
};
use k8s_openapi::api::networking::v1::{Ingress, NetworkPolicy};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::pod::tests::too_much;
use crate::config::Config;

/// All objects of a file of YAML.
fn read(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap();
    serde_saphyr::from_multiple(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Those below the repository's root in this file.
fn file(path: &str) -> Vec<Value> {
    read(&Path::new(env!("CARGO_MANIFEST_DIR")).join(path))
}

/// All objects of a kind that are to be deployed, in the order of their names.
pub(super) fn deployed(kind: &str) -> Vec<Value> {
    let whole = file("deploy/kubernetes/kustomization.yaml");
    let files = whole[0]["resources"].as_array().unwrap();
    let objects = files
        .iter()
        .flat_map(|name| file(&format!("deploy/kubernetes/{}", name.as_str().unwrap())));
    let mut objects: Vec<_> = objects.filter(|object| object["kind"] == kind).collect();
    objects.sort_by_key(|object| object["metadata"]["name"].to_string());
    objects
}

/// The only one of a kind.
fn one(kind: &str) -> Value {
    let [object] = <[Value; 1]>::try_from(deployed(kind)).unwrap();
    object
}

/// What is left of an object that goes through a type: a field that the type does not know is gone.
fn through<T: DeserializeOwned + Serialize>(object: &Value) -> Value {
    let typed: T = serde_json::from_value(object.clone()).unwrap();
    serde_json::to_value(typed).unwrap()
}

fn known(object: &Value) -> Value {
    match object["kind"].as_str().unwrap() {
        "ConfigMap" => through::<ConfigMap>(object),
        "DaemonSet" => through::<DaemonSet>(object),
        "Deployment" => through::<Deployment>(object),
        "Ingress" => through::<Ingress>(object),
        "LimitRange" => through::<LimitRange>(object),
        "Namespace" => through::<Namespace>(object),
        "NetworkPolicy" => through::<NetworkPolicy>(object),
        "PersistentVolumeClaim" => through::<PersistentVolumeClaim>(object),
        "Pod" => through::<Pod>(object),
        "PodDisruptionBudget" => through::<PodDisruptionBudget>(object),
        "ResourceQuota" => through::<ResourceQuota>(object),
        "Role" => through::<Role>(object),
        "RoleBinding" => through::<RoleBinding>(object),
        "Service" => through::<Service>(object),
        "ServiceAccount" => through::<ServiceAccount>(object),
        kind => panic!("{kind} is no kind that is expected"),
    }
}

#[test]
fn every_object_has_the_fields_of_its_kind() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/kubernetes");
    let mut objects = 0;
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.ends_with("kustomization.yaml") {
            continue;
        }
        for object in read(&path) {
            assert_eq!(known(&object), object, "{}", path.display());
            objects += 1;
        }
    }
    assert!(objects > 13, "{objects}");
}

fn rules(roles: &[Value]) -> Vec<Value> {
    let role = roles.iter().find(|role| role["kind"] == "Role").unwrap();
    role["rules"].as_array().unwrap().clone()
}

/// The tests on a cluster show that these suffice.
#[test]
fn the_server_may_do_what_it_may_in_tests_on_a_cluster() {
    let deployed = rules(&deployed("Role"));
    assert_eq!(deployed, rules(&file("tests/cluster/objects.yaml")));
    let is_lease = |rule: &Value| rule["resources"] == json!(["leases"]);
    let but_leases: Vec<_> = deployed.iter().filter(|rule| !is_lease(rule)).collect();
    let all = serde_json::to_string(&but_leases).unwrap();
    for dangerous in ["*", "secrets", "exec", "patch", "update", "nodes"] {
        assert!(!all.contains(dangerous), "{dangerous}");
    }
}

#[test]
fn the_server_is_restricted_as_its_namespace_demands() {
    let namespace = one("Namespace");
    let enforced = &namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"];
    assert_eq!(enforced, "restricted");
    let template = &one("Deployment")["spec"]["template"];
    assert_eq!(too_much(template), [""; 0]);
    let files = &file("deploy/kubernetes/files.yaml")[0];
    assert_eq!(too_much(files), [""; 0]);
    let container = &template["spec"]["containers"][0];
    assert_eq!(container["securityContext"]["readOnlyRootFilesystem"], true);
    // Those of a sandbox have `sandbox.` labels, and no policy is meant for both.
    let labels = template["metadata"]["labels"].as_object().unwrap();
    assert!(!labels.keys().any(|name| name.starts_with("sandbox.")));
}

/// What the server finds in its environment.
fn environment() -> BTreeMap<String, String> {
    let strings = |object: &Value| -> BTreeMap<String, String> {
        serde_json::from_value(object.clone()).unwrap()
    };
    let mut all = strings(&one("ConfigMap")["data"]);
    let deployment = one("Deployment");
    let container = &deployment["spec"]["template"]["spec"]["containers"][0];
    for variable in container["env"].as_array().unwrap() {
        let value = variable["value"].as_str().unwrap_or("10.0.0.1");
        let value = value
            .replace("$(POD_IP)", "10.0.0.1")
            .replace("$(KUBE_NAMESPACE)", "space");
        let name = variable["name"].as_str().unwrap().to_owned();
        assert_eq!(all.insert(name, value), None, "{variable}");
    }
    // Of the Secret.
    for name in ["MCP_API_TOKEN", "FILE_SECRET"] {
        all.insert(name.to_owned(), "0123456789abcdef".repeat(2));
    }
    all
}

fn config() -> Config {
    let environment = environment();
    Config::from_lookup(&|name| environment.get(name).cloned()).unwrap()
}

#[test]
fn the_settings_are_taken() {
    let config = config();
    let kubernetes = config.engine.kubernetes.unwrap();
    assert_eq!(
        kubernetes.claim,
        one("PersistentVolumeClaim")["metadata"]["name"]
    );
    assert_eq!(kubernetes.server_pod.unwrap().uid, "10.0.0.1");
    for host in ["10.0.0.1", "server.space.svc", "localhost"] {
        assert!(config.http.allowed_hosts.iter().any(|it| it == host));
    }
    let service = one("Service");
    assert_eq!(service["metadata"]["name"], "server");
}

fn mebibytes(value: &Value) -> u64 {
    let text = value.as_str().unwrap();
    text.strip_suffix("Mi").unwrap().parse().unwrap()
}

#[test]
fn the_quota_has_room_for_the_sandboxes_of_the_settings() {
    let config = config();
    let sandboxes = config.admission.concurrent + config.kernels.max_kernels + config.pool.max_warm;
    let sandboxes = u64::try_from(sandboxes).unwrap();
    let with_those_that_go = sandboxes + sandboxes / 3;
    let hard = &one("ResourceQuota")["spec"]["hard"];
    let pods: u64 = hard["pods"].as_str().unwrap().parse().unwrap();
    assert_eq!(pods, with_those_that_go + 1);
    let deployment = one("Deployment");
    let own = &deployment["spec"]["template"]["spec"]["containers"][0]["resources"];
    let memory = with_those_that_go * (config.limits.memory >> 20);
    for which in ["requests", "limits"] {
        let given = mebibytes(&hard[format!("{which}.memory")]);
        assert_eq!(given, memory + mebibytes(&own[which]["memory"]), "{which}");
    }
}
