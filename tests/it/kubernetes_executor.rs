//! Containers on a cluster, through the executor alone, with the real sandbox-init in the runner of shell.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use mcp_code_sandbox::executor::spec::ContainerSpec;
use mcp_code_sandbox::executor::{
    Attached, ContainerEnd, ContainerId, ContainerState, ErrorKind, Executor as _, ExecutorError,
    Outage, Stream,
};
use sandbox_init::{End, Frame, Message, MessageReader, Record, Run, Status, encode_frame};
use tokio::io::AsyncWriteExt as _;

use crate::support::cluster::{kubectl, nodes, object};
use crate::support::pods::OnCluster;

/// How long anything may take on a busy machine.
const PATIENCE: Duration = Duration::from_mins(2);

/// A container, its streams, and what came on them.
pub(crate) struct Pod {
    on: Arc<OnCluster>,
    pub(crate) id: ContainerId,
    pub(crate) attached: Attached,
    messages: MessageReader,
}

/// What is told of a program.
enum Told {
    Output(Stream, String),
    End(End),
}

impl Pod {
    pub(crate) async fn start(on: &Arc<OnCluster>, spec: &ContainerSpec) -> Self {
        let id = on.executor.create(spec).await.unwrap();
        let attached = match on.executor.start(&id).await {
            Ok(attached) => attached,
            Err(error) => panic!("{}", told(&error)),
        };
        Self {
            on: Arc::clone(on),
            id,
            attached,
            messages: MessageReader::default(),
        }
    }

    pub(crate) async fn send(&mut self, code: &str) {
        let frame = encode_frame(&Frame::Run(Run {
            number: 1,
            code: code.to_owned(),
            stdin: None,
            env: [].into(),
            deadline_ms: 60_000,
            reuse: true,
        }));
        self.attached
            .input
            .write_all(&frame.unwrap())
            .await
            .unwrap();
        self.attached.input.flush().await.unwrap();
    }

    /// Reads up to the end of the program, or of the streams.
    pub(crate) async fn end(
        &mut self,
    ) -> Result<(Vec<(Stream, String)>, Option<End>), ExecutorError> {
        let mut output = Vec::new();
        loop {
            match self.message().await? {
                Some(Told::Output(stream, text)) => output.push((stream, text)),
                Some(Told::End(end)) => return Ok((output, Some(end))),
                None => return Ok((output, None)),
            }
        }
    }

    /// The next that is told of the program; `None` at the end of the streams.
    async fn message(&mut self) -> Result<Option<Told>, ExecutorError> {
        loop {
            while let Some(message) = self.messages.next_message().unwrap() {
                match message {
                    Message::Output(stream, bytes) => {
                        let text = String::from_utf8_lossy(bytes).into_owned();
                        return Ok(Some(Told::Output(stream, text)));
                    }
                    Message::Record(Record::End(end)) => return Ok(Some(Told::End(end))),
                    Message::Record(_) => {}
                }
            }
            let Some(chunk) = within(self.attached.output.next()).await else {
                return Ok(None);
            };
            let chunk = chunk?;
            assert_eq!(chunk.stream, Stream::Stdout, "{:?}", chunk.bytes);
            self.messages.feed(&chunk.bytes);
        }
    }

    /// Runs a program, which ends by itself.
    pub(crate) async fn run(&mut self, code: &str) -> (String, End) {
        self.send(code).await;
        let (output, end) = self.end().await.unwrap();
        let text = output.into_iter().map(|(_, text)| text).collect();
        (text, end.expect("the program has ended"))
    }

    pub(crate) async fn remove(self) {
        self.on.executor.remove(&self.id).await.unwrap();
    }
}

/// What an operator is told of an error.
pub(crate) fn told(error: &ExecutorError) -> String {
    Outage::of(error, true).reason
}

pub(crate) async fn within<T>(future: impl Future<Output = T>) -> T {
    let done = tokio::time::timeout(PATIENCE, future).await;
    done.unwrap_or_else(|_| panic!("nothing for {PATIENCE:?}"))
}

/// The state, once it is another one.
async fn end_of(on: &OnCluster, id: &ContainerId) -> ContainerEnd {
    let ended = async {
        loop {
            match on.executor.state(id).await.unwrap() {
                ContainerState::Ended(end) => return end,
                _ => tokio::time::sleep(Duration::from_millis(100)).await,
            }
        }
    };
    within(ended).await
}

/// Why a container does not start.
pub(crate) async fn refusal(on: &OnCluster, spec: &ContainerSpec) -> ExecutorError {
    let id = match on.executor.create(spec).await {
        Ok(id) => id,
        Err(error) => return error,
    };
    let started = within(on.executor.start(&id)).await;
    on.executor.remove(&id).await.unwrap();
    started.expect_err("it cannot start")
}

#[tokio::test]
async fn programs_run_on_each_node_confined_and_share_their_files() {
    for node in nodes().await {
        let on = Arc::new(OnCluster::on_node(&node));
        let spec = on.shell().await;
        let mut pod = Pod::start(&on, &spec).await;
        let made = object(&["get", "pod", &pod.id.0]).await;
        assert_eq!(made["spec"]["nodeName"], node.as_str());
        let (said, end) = pod
            .run(
                "id -u; sed -nE 's/^(CapBnd|CapEff|NoNewPrivs):\\t/\\1 /p' /proc/self/status\n\
                 touch /written 2>/dev/null || echo read-only\n\
                 echo hi > file; stat -c '%u %s' file",
            )
            .await;
        assert_eq!(
            said,
            "1000\nCapEff 0000000000000000\nCapBnd 0000000000000000\nNoNewPrivs 1\nread-only\n1000 3\n"
        );
        assert_eq!(end.status, Status::Exit(0));
        let seen = std::fs::read_to_string(on.share.path().join(".tmp/slot/file"));
        assert_eq!(seen.unwrap(), "hi\n");
        pod.remove().await;
    }
}

#[tokio::test]
async fn output_keeps_its_order_and_all_of_its_bytes() {
    let on = Arc::new(OnCluster::new());
    let mut pod = Pod::start(&on, &on.shell().await).await;
    pod.send("for i in 1 2 3 4 5; do echo $i; sleep 0.05; echo $i >&2; sleep 0.05; done")
        .await;
    let (output, _) = pod.end().await.unwrap();
    let texts: String = output.iter().map(|(_, text)| text.as_str()).collect();
    assert_eq!(texts, "1\n1\n2\n2\n3\n3\n4\n4\n5\n5\n");
    pod.send("head -c 33554432 /dev/zero | tr '\\0' x").await;
    let (output, end) = pod.end().await.unwrap();
    let bytes: usize = output.iter().map(|(_, text)| text.len()).sum();
    assert_eq!((bytes, end.is_some()), (32 << 20, true));
    pod.remove().await;
}

/// None of it is kept, here or there.
#[tokio::test]
async fn a_gibibyte_of_output_is_all_there() {
    let on = Arc::new(OnCluster::with(|config| config.log_limit = 8 << 30));
    let mut pod = Pod::start(&on, &on.shell().await).await;
    pod.send("head -c 1073741824 /dev/zero | tr '\\0' x").await;
    let mut bytes = 0;
    let end = loop {
        match pod.message().await.unwrap() {
            Some(Told::Output(_, text)) => bytes += text.len(),
            Some(Told::End(end)) => break end,
            None => panic!("the streams ended after {bytes} bytes"),
        }
    };
    assert_eq!((bytes, end.status), (1 << 30, Status::Exit(0)));
    pod.remove().await;
}

#[tokio::test]
async fn what_is_removed_has_ended_and_leaves_nothing() {
    let on = Arc::new(OnCluster::new());
    let mut pod = Pod::start(&on, &on.shell().await).await;
    pod.send("echo begun; while :; do date +%s%N > tick; done")
        .await;
    let first = within(pod.attached.output.next()).await;
    assert!(first.unwrap().is_ok());
    let state = on.executor.state(&pod.id).await.unwrap();
    assert_eq!(state, ContainerState::Running);
    let listed = on
        .executor
        .containers("sandbox.root", &on.share.in_claim())
        .await;
    assert_eq!(listed.unwrap()[0].id, pod.id);
    let id = pod.id.clone();
    let (removed, end) = tokio::join!(on.executor.remove(&id), pod.end());
    removed.unwrap();
    assert!(end.unwrap().1.is_none(), "the streams end without a report");
    let tick = || std::fs::read_to_string(on.share.path().join(".tmp/slot/tick")).unwrap();
    let last = tick();
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(tick(), last, "nothing runs any more");
    // What is gone already counts as removed, and has no state.
    on.executor.remove(&pod.id).await.unwrap();
    let gone = on.executor.state(&pod.id).await.unwrap_err();
    assert_eq!(gone.kind, ErrorKind::NotFound);
    let listed = on
        .executor
        .containers("sandbox.root", &on.share.in_claim())
        .await;
    assert!(listed.unwrap().is_empty());
}

#[tokio::test]
async fn a_container_ends_when_nobody_listens_any_more() {
    let on = Arc::new(OnCluster::new());
    let pod = Pod::start(&on, &on.shell().await).await;
    let id = pod.id.clone();
    drop(pod);
    assert_eq!(end_of(&on, &id).await, ContainerEnd::Exited(Some(0)));
    on.executor.remove(&id).await.unwrap();
}

#[tokio::test]
async fn what_a_container_ended_of_is_told() {
    let on = Arc::new(OnCluster::with(|config| config.log_limit = 1 << 20));
    let spec = on.shell().await;
    let mut pod = Pod::start(&on, &spec).await;
    // A frame that is none ends PID 1.
    let no_frame = [0, 0, 0, 1, b'x'];
    pod.attached.input.write_all(&no_frame).await.unwrap();
    assert!(pod.end().await.unwrap().1.is_none());
    let end = end_of(&on, &pod.id).await;
    assert_eq!(end, ContainerEnd::Exited(Some(70)));
    pod.remove().await;

    // The memory limit ends a program and not PID 1, whose report comes first.
    let mut pod = Pod::start(&on, &spec).await;
    let (_, end) = pod.run("head -c 134217728 /dev/zero | tail").await;
    assert!(end.oom_kills > 0, "{end:?}");
    pod.attached.input.write_all(&no_frame).await.unwrap();
    assert!(pod.end().await.unwrap().1.is_none());
    assert_eq!(end_of(&on, &pod.id).await, ContainerEnd::OutOfMemory);
    pod.remove().await;

    // What it prints goes into a file on its node, too, and that has a limit.
    let mut pod = Pod::start(&on, &spec).await;
    pod.send("while :; do head -c 65536 /dev/zero; sleep 0.05; done")
        .await;
    let (_, end) = pod.end().await.unwrap();
    assert!(end.is_none());
    match end_of(&on, &pod.id).await {
        ContainerEnd::LogFull(reason) => assert!(reason.starts_with("Evicted"), "{reason}"),
        other => panic!("{other:?}"),
    }
    pod.remove().await;
}

#[tokio::test]
async fn why_a_container_does_not_start_is_told() {
    let on = OnCluster::new();
    let spec = on.shell().await;
    let mut large = spec.clone();
    large.limits.memory = 1 << 50;
    let error = refusal(&on, &large).await;
    assert_eq!(error.kind, ErrorKind::Full, "{}", told(&error));
    assert!(
        told(&error).contains("Insufficient memory"),
        "{}",
        told(&error)
    );

    let mut missing = spec.clone();
    missing.image = format!("127.0.0.1:1/none@sha256:{}", "0".repeat(64));
    let error = refusal(&on, &missing).await;
    assert_eq!(error.kind, ErrorKind::Refused);
    assert!(told(&error).contains("ImagePull"), "{}", told(&error));

    let mut runtime = spec;
    runtime.runtime = Some("no-such-runtime".to_owned());
    let error = refusal(&on, &runtime).await;
    assert!(told(&error).contains("no-such-runtime"), "{}", told(&error));
}

#[tokio::test]
async fn runners_are_followed() {
    let on = OnCluster::new();
    let mut changes = on.executor.runner_changes().await.unwrap();
    let name = format!("runner-{}", on.share.in_claim().to_lowercase());
    let data = format!("--from-literal=image=sha256:{}", "0".repeat(64));
    kubectl(&[
        "create",
        "configmap",
        &name,
        &data,
        "--from-literal=sandbox.language=test",
    ])
    .await;
    kubectl(&["label", "configmap", &name, "sandbox.runner=true"]).await;
    within(changes.next()).await.unwrap();
    let has = async || {
        let images = on.executor.runner_images().await.unwrap();
        images.iter().any(|image| image.name == name)
    };
    assert!(has().await);
    kubectl(&["delete", "configmap", &name]).await;
    within(changes.next()).await.unwrap();
    assert!(!has().await);
}
