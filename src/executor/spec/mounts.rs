//! What a container sees of the server's files, and where its engine finds that.

use std::path::{Path, PathBuf};

use bollard::models::{
    Mount, MountBindOptions, MountBindOptionsPropagationEnum, MountType, MountVolumeOptions,
};

use super::{ContainerSpec, DATA_PATH, INIT_PATH};

/// Where an engine finds a file or a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// On its host.
    Host(PathBuf),
    /// In one of its volumes.
    Volume {
        /// The volume.
        name: String,
        /// Relative to the volume's own directory.
        path: PathBuf,
    },
}

impl Source {
    /// What is at a path below it.
    #[must_use]
    pub fn join(&self, below: impl AsRef<Path>) -> Self {
        match self {
            Self::Host(path) => Self::Host(path.join(below)),
            Self::Volume { name, path } => Self::Volume {
                name: name.clone(),
                path: path.join(below),
            },
        }
    }
}

/// A file or directory that a container sees and cannot change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    /// Where it is.
    pub source: Source,
    /// Its path in the container, which must not be below `/data`.
    pub target: &'static str,
}

impl ContainerSpec {
    /// Only `/data`, under all its names, can be written to.
    pub(super) fn mounts(&self) -> Vec<Mount> {
        let mut mounts = vec![
            mount(&self.data, DATA_PATH, false),
            mount(&self.init, INIT_PATH, true),
        ];
        let shown = self.shown.iter();
        mounts.extend(shown.map(|shown| mount(&shown.source, shown.target, true)));
        // A mount follows the directory and not its name, so both paths become the conversation's at once.
        mounts.extend(self.data_alias.map(|path| mount(&self.data, path, false)));
        mounts
    }

    /// Whether any of it is a part of a volume.
    pub(in crate::executor) fn has_parts_of_volumes(&self) -> bool {
        let shown = self.shown.iter().map(|shown| &shown.source);
        let mut sources = shown.chain([&self.data, &self.init]);
        sources.any(|source| matches!(source, Source::Volume { .. }))
    }
}

/// A mount. As `Mounts` and not `Binds`, so that a missing source is an error instead of a new directory owned by root.
fn mount(source: &Source, target: &str, read_only: bool) -> Mount {
    let mount = Mount {
        target: Some(target.to_owned()),
        read_only: Some(read_only),
        ..Default::default()
    };
    match source {
        Source::Host(path) => Mount {
            typ: Some(MountType::BIND),
            source: Some(path.display().to_string()),
            bind_options: Some(MountBindOptions {
                propagation: Some(MountBindOptionsPropagationEnum::RPRIVATE),
                ..Default::default()
            }),
            ..mount
        },
        Source::Volume { name, path } => Mount {
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
    use super::super::tests::{body, spec};
    use super::super::{DATA_ALIAS, Dialect, NetworkAccess};
    use super::*;

    #[test]
    fn what_is_shown_can_be_read_only_and_changes_nothing_else() {
        let without = body(&spec(NetworkAccess::None), Dialect::Docker);
        let mut spec = spec(NetworkAccess::None);
        spec.shown = vec![Shown {
            source: Source::Host(PathBuf::from("/srv/wheels")),
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
    fn another_name_for_the_directory_is_one_more_mount_of_it() {
        let without = body(&spec(NetworkAccess::None), Dialect::Docker);
        let mut spec = spec(NetworkAccess::None);
        spec.data_alias = Some(DATA_ALIAS);
        let mut with = body(&spec, Dialect::Docker);
        let mounts = with["HostConfig"]["Mounts"].as_array_mut().unwrap();
        let mut alias = mounts.pop().unwrap();
        assert_eq!(alias["Target"], "/mnt/data");
        alias["Target"] = mounts[0]["Target"].clone();
        assert_eq!(alias, mounts[0]);
        assert_eq!(with, without);
    }

    #[test]
    fn a_volume_changes_the_mounts_only() {
        let on_host = body(&spec(NetworkAccess::None), Dialect::Docker);
        let root = Source::Volume {
            name: "files".to_owned(),
            path: PathBuf::new(),
        };
        let mut spec = spec(NetworkAccess::None);
        assert!(!spec.has_parts_of_volumes());
        spec.data = root.join("key");
        assert!(spec.has_parts_of_volumes());
        spec.init = root.join(".bin").join("init");
        let mut in_volume = body(&spec, Dialect::Docker);
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
}
