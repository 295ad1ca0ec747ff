//! What a pod sees of the server's files, and what it can write to besides.

use k8s_openapi::api::core::v1::{
    EmptyDirVolumeSource, PersistentVolumeClaimVolumeSource, Volume, VolumeMount,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use crate::config::KubernetesConfig;
use crate::executor::host_paths::{HostPaths, MountSource, UnplacedError};
use crate::executor::spec::{ContainerSpec, DATA_ALIAS, DATA_PATH, INIT_PATH, Place};

/// The volume that is the claim.
const FILES: &str = "files";
/// What is in memory, by name: where it is, and how large. It counts as memory of the sandbox.
const IN_MEMORY: [(&str, &str, &str); 2] = [("tmp", "/tmp", "64Mi"), ("shm", "/dev/shm", "16Mi")];

/// The claim, and what is in memory.
pub(super) fn volumes(config: &KubernetesConfig) -> Vec<Volume> {
    let files = Volume {
        name: FILES.to_owned(),
        persistent_volume_claim: Some(PersistentVolumeClaimVolumeSource {
            claim_name: config.claim.clone(),
            read_only: None,
        }),
        ..Default::default()
    };
    let in_memory = IN_MEMORY.map(|(name, _, size)| Volume {
        name: name.to_owned(),
        empty_dir: Some(EmptyDirVolumeSource {
            medium: Some("Memory".to_owned()),
            size_limit: Some(Quantity(size.to_owned())),
        }),
        ..Default::default()
    });
    [files].into_iter().chain(in_memory).collect()
}

/// Only `/data`, under all its names, and what is in memory can be written to.
pub(super) fn mounts(
    spec: &ContainerSpec,
    paths: &HostPaths,
) -> Result<Vec<VolumeMount>, UnplacedError> {
    let part = |place: &Place, target: &str, read_only: bool| {
        Ok(VolumeMount {
            name: FILES.to_owned(),
            mount_path: target.to_owned(),
            sub_path: Some(path_in_claim(&paths.find(place)?)),
            read_only: read_only.then_some(true),
            ..Default::default()
        })
    };
    let mut mounts = vec![
        part(&spec.data, DATA_PATH, false)?,
        // A mount follows the directory and not its name, so both paths become the conversation's at once.
        part(&spec.data, DATA_ALIAS, false)?,
        part(&Place::Init, INIT_PATH, true)?,
    ];
    for read_only in &spec.read_only {
        mounts.push(part(&read_only.place, read_only.target, true)?);
    }
    mounts.extend(IN_MEMORY.map(|(name, target, _)| VolumeMount {
        name: name.to_owned(),
        mount_path: target.to_owned(),
        ..Default::default()
    }));
    Ok(mounts)
}

/// Where the claim has it. What the operator provides is written as if the claim were a file system.
fn path_in_claim(source: &MountSource) -> String {
    let (MountSource::Host(path) | MountSource::Volume { path, .. }) = source;
    path.display()
        .to_string()
        .trim_start_matches('/')
        .to_owned()
}
