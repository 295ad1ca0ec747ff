//! Runners of a cluster. Its API tells no labels of images, so a `ConfigMap` for each runner has them: with an image's
//! labels as its keys, and with what else the server reads of an image.

use std::collections::HashMap;

use futures::StreamExt as _;
use futures::stream::BoxStream;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, ResourceExt as _};
use thiserror::Error;
use tracing::{debug, warn};

use super::KubernetesExecutor;
use super::follow::{Follow, News};
use crate::executor::{ExecutorError, Image};

/// The label of a `ConfigMap` that is a runner, with its value.
const RUNNER: (&str, &str) = ("sandbox.runner", "true");
/// How the keys begin that are labels of the image.
const LABELS: &str = "sandbox.";
/// The length of a digest, in hexadecimal digits.
const DIGEST: usize = 64;

/// Why a `ConfigMap` is not a runner.
#[derive(Debug, Error, PartialEq, Eq)]
enum RunnerMapError {
    /// There is no image in it.
    #[error("it has no key image")]
    Imageless,
    /// The image may become another one.
    #[error(
        "its image is {0:?}: it must end in the digest of an image, as in registry.example/shell@sha256:0a1b…, or be the \
         id of one that all nodes have. scripts/runner-configmap.sh writes it"
    )]
    Unpinned(String),
    /// A list is none.
    #[error("its {0} is not a JSON array of strings")]
    Malformed(&'static str),
}

impl KubernetesExecutor {
    /// The images of all runners.
    ///
    /// # Errors
    /// The cluster does not answer.
    pub async fn runner_images(&self) -> Result<Vec<Image>, ExecutorError> {
        let operation = "list runners";
        let mut follow = self.follow_runners(operation).await?;
        let news = follow
            .next()
            .await
            .map_err(|error| error.during(operation))?;
        let News::All(maps) = news else {
            return Ok(Vec::new());
        };
        let images = maps.iter().filter_map(|map| match image(map) {
            Ok(image) => Some(image),
            Err(error) => {
                let map = map.name_any();
                warn!(map, %error, "a ConfigMap labelled as a runner is none");
                None
            }
        });
        Ok(images.collect())
    }

    /// One item whenever they may have changed. Ends when the cluster does not answer.
    ///
    /// # Errors
    /// The cluster does not answer.
    pub async fn runner_changes(&self) -> Result<BoxStream<'static, ()>, ExecutorError> {
        let operation = "follow runners";
        let mut follow = self.follow_runners(operation).await?;
        // Of what is there now, nobody needs to be told.
        let first = follow.next().await;
        first.map_err(|error| error.during(operation))?;
        let changes = futures::stream::unfold(follow, |mut follow| async move {
            match follow.next().await {
                Ok(_) => Some(((), follow)),
                Err(error) => {
                    debug!(%error, "cannot follow runners now");
                    None
                }
            }
        });
        Ok(changes.boxed())
    }

    async fn follow_runners(
        &self,
        operation: &'static str,
    ) -> Result<Follow<ConfigMap>, ExecutorError> {
        let cluster = self.cluster(operation).await?;
        let api = Api::namespaced(cluster.client.0.clone(), &cluster.namespace);
        let (name, value) = RUNNER;
        Ok(Follow::new(api, format!("{name}={value}")))
    }
}

/// The image that a `ConfigMap` tells of.
fn image(map: &ConfigMap) -> Result<Image, RunnerMapError> {
    let data = map.data.iter().flatten();
    let data: HashMap<&str, &str> = data
        .map(|(key, value)| (key.as_str(), value.trim()))
        .collect();
    let list = |key: &'static str| match data.get(key) {
        None | Some(&"") => Ok(Vec::new()),
        Some(text) => serde_json::from_str(text).map_err(|_| RunnerMapError::Malformed(key)),
    };
    let id = *data.get("image").ok_or(RunnerMapError::Imageless)?;
    let name = pinned(id).ok_or_else(|| RunnerMapError::Unpinned(id.to_owned()))?;
    let labels = data.iter().filter(|(key, _)| key.starts_with(LABELS));
    let labels = labels.map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
    let (runner, is_one) = RUNNER;
    let created = map.metadata.creation_timestamp.as_ref();
    Ok(Image {
        id: id.to_owned(),
        name: match name {
            "" => map.name_any(),
            name => name.to_owned(),
        },
        created: created.map_or(0, |time| time.0.as_second()),
        labels: labels
            .chain([(runner.to_owned(), is_one.to_owned())])
            .collect(),
        command: list("command")?,
        env: list("env")?,
    })
}

/// The name before the digest of an image that cannot become another one; empty where there is only an id.
fn pinned(image: &str) -> Option<&str> {
    let (name, digest) = image.rsplit_once("sha256:")?;
    let is_digest = digest.len() == DIGEST && digest.bytes().all(|byte| byte.is_ascii_hexdigit());
    let name = match name {
        "" => "",
        name => name.strip_suffix('@').filter(|name| !name.is_empty())?,
    };
    is_digest.then_some(name)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const HEX: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

    fn read(data: &serde_json::Value) -> Result<Image, RunnerMapError> {
        let map = json!({
            "metadata": { "name": "runner-shell", "creationTimestamp": "1970-01-02T00:00:00Z" },
            "data": data,
        });
        image(&serde_json::from_value(map).unwrap())
    }

    #[test]
    fn the_keys_are_the_labels_of_the_image() {
        let id = format!("registry.example:5000/shell@sha256:{HEX}");
        let image = read(&json!({
            "image": id,
            "command": "[\"/bin/sh\", \"/opt/runner/run.sh\"]",
            "env": "[\"HOME=/tmp\"]",
            "sandbox.language": "shell",
            "sandbox.description": "bash\n",
            "note": "by hand",
        }));
        let image = image.unwrap();
        assert_eq!(
            (image.id, image.name.as_str()),
            (id, "registry.example:5000/shell")
        );
        assert_eq!(image.created, 24 * 60 * 60);
        assert_eq!(image.command, ["/bin/sh", "/opt/runner/run.sh"]);
        assert_eq!(image.env, ["HOME=/tmp"]);
        let labels = [
            ("sandbox.runner", "true"),
            ("sandbox.language", "shell"),
            ("sandbox.description", "bash"),
        ];
        let labels = labels.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(image.labels, HashMap::from(labels));
    }

    #[test]
    fn an_image_is_named_by_its_digest_or_is_none() {
        let of = |image: &str| read(&json!({ "image": image })).map(|image| image.name);
        assert_eq!(of(&format!("sha256:{HEX}")).unwrap(), "runner-shell");
        for bad in [
            "shell",
            "shell:latest",
            "shell@sha256:0a1b",
            &format!("shell:sha256:{HEX}"),
            &format!("@sha256:{HEX}"),
        ] {
            assert_eq!(of(bad), Err(RunnerMapError::Unpinned(bad.to_owned())));
        }
        assert_eq!(read(&json!({})), Err(RunnerMapError::Imageless));
        let image = format!("sha256:{HEX}");
        let bad = read(&json!({ "image": image, "command": "run.sh" }));
        assert_eq!(bad, Err(RunnerMapError::Malformed("command")));
    }
}
