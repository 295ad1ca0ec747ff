//! What a container sees of the server's files, as mounts.

use bollard::models::{
    Mount, MountBindOptions, MountBindOptionsPropagationEnum, MountType, MountVolumeOptions,
};
use sandbox_init::HATCH_PATH;

use crate::executor::host_paths::{HostPaths, MountSource, UnplacedError};
use crate::executor::spec::{ContainerSpec, DATA_ALIAS, DATA_PATH, INIT_PATH, Place};
use crate::secrets::certificates;

/// Only `/data`, under all its names, can be written to.
pub(super) fn mounts(spec: &ContainerSpec, paths: &HostPaths) -> Result<Vec<Mount>, UnplacedError> {
    let data = paths.find(&spec.data)?;
    let mut mounts = vec![
        mount(&data, DATA_PATH, false),
        // A mount follows the directory and not its name, so both paths become the conversation's at once.
        mount(&data, DATA_ALIAS, false),
        mount(&paths.find(&Place::Init)?, INIT_PATH, true),
    ];
    for read_only in &spec.read_only {
        mounts.push(mount(
            &paths.find(&read_only.place)?,
            read_only.target,
            true,
        ));
    }
    if let Some(hatch) = spec.hatch.name() {
        let place = Place::Hatch(hatch.to_owned());
        // Connecting needs the file's own mode, and not that of the mount.
        mounts.push(mount(&paths.find(&place)?, HATCH_PATH, true));
    }
    if let Some(certificates) = &spec.certificates {
        let place = Place::Certificates(certificates.clone());
        mounts.push(mount(&paths.find(&place)?, certificates::PATH, true));
    }
    Ok(mounts)
}

/// A mount. As `Mounts` and not `Binds`, so that a missing source is an error instead of a new directory owned by root.
fn mount(source: &MountSource, target: &str, read_only: bool) -> Mount {
    let mount = Mount {
        target: Some(target.to_owned()),
        read_only: Some(read_only),
        ..Default::default()
    };
    match source {
        MountSource::Host(path) => Mount {
            typ: Some(MountType::BIND),
            source: Some(path.display().to_string()),
            bind_options: Some(MountBindOptions {
                propagation: Some(MountBindOptionsPropagationEnum::RPRIVATE),
                ..Default::default()
            }),
            ..mount
        },
        MountSource::Volume { name, path } => Mount {
            typ: Some(MountType::VOLUME),
            source: Some(name.clone()),
            volume_options: Some(MountVolumeOptions {
                // Otherwise an empty directory would get what the image has at this path, with its owner and mode.
                no_copy: Some(true),
                subpath: Some(path.display().to_string()),
                ..Default::default()
            }),
            ..mount
        },
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::super::Dialect;
    use super::super::tests::{body, body_at, setup, spec};
    use super::*;
    use crate::executor::spec::{NetworkAccess, Provided, ReadOnlyMount};

    #[test]
    fn what_is_shown_can_be_read_only_and_changes_nothing_else() {
        let without = body(&spec(NetworkAccess::None), Dialect::Docker);
        let mut spec = spec(NetworkAccess::None);
        spec.read_only = vec![ReadOnlyMount {
            place: Place::Operator(Provided::Wheelhouse),
            target: "/packages/wheelhouse",
        }];
        let mut with = body(&spec, Dialect::Docker);
        let mounts = with["HostConfig"]["Mounts"].as_array_mut().unwrap();
        insta::assert_json_snapshot!(mounts.pop().unwrap(), @r#"
        {
          "Target": "/packages/wheelhouse",
          "Source": "/srv/wheels",
          "Type": "bind",
          "ReadOnly": true,
          "BindOptions": {
            "Propagation": "rprivate"
          }
        }
        "#);
        assert_eq!(with, without);
    }

    #[test]
    fn a_volume_changes_the_mounts_only() {
        let on_host = body(&spec(NetworkAccess::None), Dialect::Docker);
        let mut setup = setup();
        assert!(!setup.paths.have_parts_of_volumes());
        setup.paths.root = MountSource::Volume {
            name: "files".to_owned(),
            path: PathBuf::new(),
        };
        assert!(setup.paths.have_parts_of_volumes());
        let mut in_volume = body_at(&spec(NetworkAccess::None), Dialect::Docker, &setup);
        let mounts = &mut in_volume["HostConfig"]["Mounts"];
        insta::assert_json_snapshot!(mounts, @r#"
        [
          {
            "Target": "/data",
            "Source": "files",
            "Type": "volume",
            "ReadOnly": false,
            "VolumeOptions": {
              "NoCopy": true,
              "Subpath": "key"
            }
          },
          {
            "Target": "/mnt/data",
            "Source": "files",
            "Type": "volume",
            "ReadOnly": false,
            "VolumeOptions": {
              "NoCopy": true,
              "Subpath": "key"
            }
          },
          {
            "Target": "/.sandbox-init",
            "Source": "files",
            "Type": "volume",
            "ReadOnly": true,
            "VolumeOptions": {
              "NoCopy": true,
              "Subpath": ".bin/init"
            }
          }
        ]
        "#);
        *mounts = on_host["HostConfig"]["Mounts"].clone();
        assert_eq!(in_volume, on_host);
    }

    #[test]
    fn what_nobody_provides_is_not_shown() {
        let mut spec = spec(NetworkAccess::None);
        spec.read_only = vec![ReadOnlyMount {
            place: Place::Operator(Provided::CaBundle),
            target: "/packages/certificates",
        }];
        let refused = mounts(&spec, &setup().paths).unwrap_err();
        assert_eq!(refused, UnplacedError(spec.read_only[0].place.clone()));
    }
}
