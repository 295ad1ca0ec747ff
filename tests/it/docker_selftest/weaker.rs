//! Sandboxes that lack something, with the controls that must notice, or that hold all the same.

use bollard::models::{ContainerCreateBody, HostConfig, Mount, MountType};
use mcp_code_sandbox::control::Control;
use mcp_code_sandbox::executor::docker::request::SECCOMP_PROFILE;

use crate::support::weak::Weaken;

/// Something that is taken away, and the controls that must notice. Their findings are named, so that none notices by
/// chance.
pub(super) struct Weaker {
    pub(super) what: &'static str,
    pub(super) weaken: Weaken,
    pub(super) noticed: &'static [(Control, &'static str)],
}

/// A filter that takes the kernel for one without Landlock, which keeps programs from other processes by itself.
pub(super) const NO_LANDLOCK: &str = r#"{"defaultAction":"SCMP_ACT_ALLOW","syscalls":[{"names":["landlock_create_ruleset"],"action":"SCMP_ACT_ERRNO"}]}"#;

/// One that takes it for a kernel without filters, so that PID 1 has none either.
const UNFILTERED: &str = r#"{"defaultAction":"SCMP_ACT_ALLOW","syscalls":[{"names":["prctl"],"action":"SCMP_ACT_ERRNO","errnoRet":22,"args":[{"index":0,"value":22,"op":"SCMP_CMP_EQ"}]}]}"#;

/// Within one sandbox.
pub(super) const WEAKER: &[Weaker] = &[
    Weaker {
        what: "another directory in place of the workspace",
        weaken: |body| {
            let mounts = host(body).mounts.as_mut().unwrap();
            mounts.retain(|mount| mount.target.as_deref() != Some("/data"));
            mount(body, MountType::TMPFS, None, "/data");
        },
        noticed: &[(Control::Workspace, "does not see what the server writes")],
    },
    Weaker {
        what: "no system call filter, not even PID 1's",
        weaken: |body| filter_by(body, UNFILTERED),
        noticed: &[
            (Control::Syscalls, "unshare a user namespace"),
            (Control::SharedTables, "took requests of io_setup"),
        ],
    },
    Weaker {
        what: "root with the capabilities that engines give by default",
        weaken: |body| {
            default_root(body);
        },
        noticed: &[
            (Control::Identity, "CapEff is "),
            (Control::Identity, "is root"),
            (Control::NetworkOff, "a raw socket"),
            (Control::SharedTables, "lacks an inotify instance"),
        ],
    },
    Weaker {
        what: "root that may look into other processes, without Landlock",
        weaken: |body| {
            default_root(body);
            host(body).cap_add = Some(vec!["SYS_PTRACE".into()]);
            host(body).security_opt = Some(vec![format!("seccomp={NO_LANDLOCK}")]);
        },
        noticed: &[(Control::PidOne, "/proc/1/environ can be read")],
    },
    Weaker {
        what: "a group of the system besides its own",
        weaken: |body| host(body).group_add = Some(vec!["101".into()]),
        noticed: &[(Control::Identity, "is in group 101")],
    },
    Weaker {
        what: "a kernel whose files are not masked",
        weaken: |body| {
            body.user = Some("0:0".into());
            host(body).masked_paths = Some(vec![]);
        },
        noticed: &[(Control::KernelLevers, "/proc/keys can be read")],
    },
    Weaker {
        what: "one more directory that can be written to",
        weaken: |body| {
            mount(body, MountType::TMPFS, None, "/dev/more");
        },
        noticed: &[(Control::WritablePaths, "/dev/more")],
    },
    Weaker {
        what: "the engine's socket, and a variable of the server's",
        weaken: |body| {
            let socket = "/var/run/docker.sock";
            mount(body, MountType::BIND, Some(socket.to_owned()), socket);
            body.env
                .get_or_insert_default()
                .push("FILE_SECRET=leaked".into());
        },
        noticed: &[
            (Control::Secrets, "FILE_SECRET=…"),
            (Control::Secrets, "docker.sock"),
        ],
    },
    Weaker {
        what: "a network",
        weaken: |body| {
            host(body).network_mode = Some("bridge".into());
        },
        noticed: &[(Control::NetworkOff, "interface eth0 is up, a route")],
    },
    Weaker {
        what: "limits that nobody can see, of an engine that says it has none",
        weaken: |body| host(body).masked_paths = Some(vec!["/sys/fs/cgroup".into()]),
        noticed: &[(
            Control::Limits,
            "no limit on memory is to be seen, no limit on processes is to be seen",
        )],
    },
    Weaker {
        what: "connections that may hold as much as the kernel lets them",
        weaken: |body| host(body).sysctls = None,
        noticed: &[(Control::Limits, "a connection's buffer is")],
    },
    Weaker {
        what: "no limits",
        weaken: |body| {
            let host = host(body);
            (host.memory, host.memory_swap, host.pids_limit) = (None, None, None);
            (host.nano_cpus, host.ulimits) = (None, None);
            let env = body.env.as_mut().unwrap();
            env.retain(|variable| !variable.starts_with("SANDBOX_LIMITS="));
        },
        noticed: &[
            (Control::Limits, "memory is"),
            (Control::ForkBomb, "got 72, the limit is 8"),
            (Control::Memory, "past"),
            (Control::Processor, "cores of 0.05"),
            (Control::FileSize, "got 1048577, the limit is 1048576"),
        ],
    },
];

/// Shared on one server: the directory of all conversations in place of one's own, and a scratch directory that lasts.
pub(super) const SHARED: &[Weaker] = &[
    Weaker {
        what: "all conversations' files",
        weaken: |body| {
            default_root(body);
            let mounts = host(body).mounts.as_mut().unwrap();
            mounts[0].source = Some(all_conversations(mounts));
        },
        noticed: &[
            (Control::Conversations, "the mark in names in /data"),
            (Control::Tenants, "the mark in names in /data"),
        ],
    },
    Weaker {
        what: "a scratch directory that outlives the sandbox",
        weaken: |body| {
            default_root(body);
            let source = all_conversations(host(body).mounts.as_ref().unwrap());
            mount(body, MountType::BIND, Some(source), "/dev/lasting");
        },
        noticed: &[(Control::Residue, "the mark in names in /dev/lasting")],
    },
    Weaker {
        what: "the host's own bridge, which no rule closes",
        weaken: |body| {
            if host(body).network_mode.as_deref() != Some("none") {
                host(body).network_mode = Some("bridge".into());
            }
        },
        noticed: &[(Control::NetworkOn, "reaches the host")],
    },
];

/// Something that is taken away from what the engine does and that PID 1 keeps up, with the control that holds.
/// Landlock has to be among the kernel's security modules.
pub(super) const KEPT_UP: &[(&str, Weaken, Control)] = &[
    (
        "setuid programs that have their effect",
        |body| {
            let options = host(body).security_opt.as_mut().unwrap();
            options.retain(|option| !option.contains("privileges"));
        },
        Control::Identity,
    ),
    (
        "a root file system that can be written to",
        |body| host(body).readonly_rootfs = Some(false),
        Control::WritablePaths,
    ),
    (
        "the system call filter",
        |body| filter_by(body, "unconfined"),
        Control::Syscalls,
    ),
    (
        "the filter of old engines",
        |body| host(body).security_opt = Some(vec!["no-new-privileges:true".into()]),
        Control::Syscalls,
    ),
    (
        "limits on each process",
        |body| host(body).ulimits = None,
        Control::FileSize,
    ),
    (
        "root, and a kernel whose files can be written to",
        |body| {
            default_root(body);
            host(body).readonly_paths = Some(vec![]);
        },
        Control::KernelLevers,
    ),
];

/// The directory that a conversation's directory is in.
fn all_conversations(mounts: &[Mount]) -> String {
    let own = mounts[0].source.as_ref().unwrap();
    own.rsplit_once('/').unwrap().0.to_owned()
}

/// Mounts something more.
fn mount(body: &mut ContainerCreateBody, kind: MountType, source: Option<String>, target: &str) {
    host(body).mounts.as_mut().unwrap().push(Mount {
        typ: Some(kind),
        source,
        target: Some(target.to_owned()),
        ..Mount::default()
    });
}

/// Root as engines make it by default, which may read everything that is mounted.
fn default_root(body: &mut ContainerCreateBody) {
    body.user = Some("0:0".into());
    host(body).cap_drop = None;
}

/// A network, which PID 1 is to leave, and may.
pub(super) fn leave_network(body: &mut ContainerCreateBody) {
    let mut profile: serde_json::Value = serde_json::from_str(SECCOMP_PROFILE).unwrap();
    let names = profile["syscalls"][0]["names"].as_array_mut().unwrap();
    names.retain(|name| name != "unshare");
    filter_by(body, &profile.to_string());
    host(body).network_mode = Some("bridge".into());
    let env = body.env.get_or_insert_default();
    env.push("SANDBOX_NO_NETWORK=require".into());
}

/// With this filter of the engine in place of ours.
fn filter_by(body: &mut ContainerCreateBody, filter: &str) {
    host(body).security_opt = Some(vec![
        "no-new-privileges:true".to_owned(),
        format!("seccomp={filter}"),
    ]);
}

pub(super) fn host(body: &mut ContainerCreateBody) -> &mut HostConfig {
    body.host_config.as_mut().unwrap()
}
