//! Measures what of a container's start is due to what: the request that the server makes, changed in one place at a
//! time, beside the request as it is. Needs a container engine and the image of shell.
//!
//! `cargo bench --bench starts` prints the table of `bench/RESULTS.md`.
#![expect(clippy::unwrap_used, reason = "a measurement that cannot go on ends")]
#![expect(clippy::print_stdout, reason = "the table is the output")]

#[path = "run.rs"]
mod run;
#[expect(dead_code, reason = "the other benchmark has the rest")]
#[path = "latency/server.rs"]
mod server;
#[expect(dead_code, reason = "the other benchmark has the rest")]
#[path = "latency/stats.rs"]
mod stats;

use std::time::Duration;

use bollard::Docker;
use bollard::models::ContainerCreateBody;
use bollard::query_parameters::{
    CreateContainerOptions, ListContainersOptions, RemoveContainerOptions,
};
use futures::future::join_all;
use serde_json::{Value, json};
use tokio::time::Instant;

use self::server::Server;

/// Starts of each kind, in turn, so that all of them have the same minutes.
const ROUNDS: usize = 20;
/// How many are started at once in the last columns.
const AT_ONCE: [usize; 3] = [2, 4, 8];

/// A change of the request, and what it is.
type Change = (&'static str, fn(&mut Value));

const CHANGES: [Change; 14] = [
    ("as it is", |_| {}),
    ("without a filter of system calls", |host| {
        host["SecurityOpt"] = json!(["no-new-privileges:true", "seccomp=unconfined"]);
    }),
    ("with the engine's filter", |host| {
        host["SecurityOpt"] = json!(["no-new-privileges:true"]);
    }),
    ("without /tmp in memory", |host| host["Tmpfs"] = json!({})),
    ("without /data", |host| {
        let mounts = host["Mounts"].as_array_mut().unwrap();
        mounts.retain(|mount| mount["Target"] != "/data");
    }),
    ("without sysctls", |host| host["Sysctls"] = json!({})),
    ("with a log (json-file)", |host| {
        host["LogConfig"] = json!({ "Type": "json-file", "Config": {} });
    }),
    ("without limits", |host| {
        for limit in [
            "Memory",
            "MemorySwap",
            "NanoCpus",
            "CpuShares",
            "PidsLimit",
            "BlkioWeight",
        ] {
            host[limit] = json!(0);
        }
    }),
    ("with a network", |host| {
        host["NetworkMode"] = json!("bridge");
    }),
    ("with the network of another container", |host| {
        host["NetworkMode"] = host["Another"].take();
        host["Sysctls"] = json!({});
        host["Dns"] = json!([]);
    }),
    ("with the host's network", |host| {
        host["NetworkMode"] = json!("host");
        host["Sysctls"] = json!({});
    }),
    ("with the host's IPC", |host| {
        host["IpcMode"] = json!("host");
    }),
    ("root file system writable", |host| {
        host["ReadonlyRootfs"] = json!(false);
    }),
    ("with crun", |host| host["Runtime"] = json!("crun")),
];

fn main() {
    run::run(measure());
}

async fn measure() {
    println!("{}\n", stats::machine());
    let server = Server::start(&[("POOL_SIZE", "shell=1")]).await;
    server.wait_until_full().await;
    let engine = Docker::connect_with_defaults().unwrap();
    let request = request(&engine, &server).await;
    let has_crun = has_crun(&engine).await;
    let changes = CHANGES
        .iter()
        .filter(|(name, _)| has_crun || !name.contains("crun"));
    let changes: Vec<&Change> = changes.collect();
    let mut times = vec![Vec::new(); changes.len()];
    for _ in 0..ROUNDS {
        for ((_, change), times) in changes.iter().zip(&mut times) {
            times.push(start(&engine, changed(&request, *change)).await);
        }
    }
    println!("| the request | create ms | start ms | remove ms |\n|---|---|---|---|");
    for ((name, _), times) in changes.iter().zip(&times) {
        let [create, start, remove] = [0, 1, 2].map(|step| median(times, step));
        println!("| {name} | {create:.1} | {start:.1} | {remove:.1} |");
    }
    println!("\n| as it is, at once | ms for each, all steps |\n|---|---|");
    for count in AT_ONCE {
        let begun = Instant::now();
        for _ in 0..ROUNDS {
            join_all((0..count).map(|_| start(&engine, changed(&request, |_| {})))).await;
        }
        let each =
            begun.elapsed().as_secs_f64() * 1e3 / f64::from(u32::try_from(ROUNDS * count).unwrap());
        println!("| {count} | {each:.1} |");
    }
    server.stop();
}

/// Whether the operator has given the engine this runtime.
async fn has_crun(engine: &Docker) -> bool {
    let runtimes = engine.info().await.unwrap().runtimes;
    runtimes.is_some_and(|runtimes| runtimes.contains_key("crun"))
}

/// What the server asked for when it started a sandbox ahead, without its labels.
async fn request(engine: &Docker, server: &Server) -> Value {
    let id = std::fs::read_to_string(server.root().join(".root-id")).unwrap();
    let labels = vec![
        format!("sandbox.root={}", id.trim()),
        "sandbox.slot".to_owned(),
    ];
    let options = ListContainersOptions {
        filters: Some([("label".to_owned(), labels)].into()),
        ..Default::default()
    };
    let list = engine.list_containers(Some(options)).await.unwrap();
    let id = list[0].id.clone().unwrap();
    let container = engine.inspect_container(&id, None).await.unwrap();
    let mut request = serde_json::to_value(container.config.unwrap()).unwrap();
    request["Labels"] = json!({});
    request["HostConfig"] = serde_json::to_value(container.host_config.unwrap()).unwrap();
    request["HostConfig"]["Another"] = json!(format!("container:{id}"));
    request
}

fn changed(request: &Value, change: fn(&mut Value)) -> ContainerCreateBody {
    let mut request = request.clone();
    change(&mut request["HostConfig"]);
    let network = request["HostConfig"]["NetworkMode"].as_str();
    if network.is_some_and(|network| network.starts_with("container:")) {
        // It has the name of the other one.
        request["Hostname"] = Value::Null;
    }
    serde_json::from_value(request).unwrap()
}

/// How long it takes to create, to start and to remove one.
async fn start(engine: &Docker, body: ContainerCreateBody) -> [Duration; 3] {
    let begun = Instant::now();
    let created = engine.create_container(None::<CreateContainerOptions>, body);
    let id = created.await.unwrap().id;
    let (create, begun) = (begun.elapsed(), Instant::now());
    engine.start_container(&id, None).await.unwrap();
    let (start, begun) = (begun.elapsed(), Instant::now());
    let force = RemoveContainerOptions {
        force: true,
        ..Default::default()
    };
    engine.remove_container(&id, Some(force)).await.unwrap();
    [create, start, begun.elapsed()]
}

fn median(times: &[[Duration; 3]], step: usize) -> f64 {
    let mut times: Vec<_> = times.iter().map(|times| times[step]).collect();
    times.sort_unstable();
    times[times.len() / 2].as_secs_f64() * 1e3
}
