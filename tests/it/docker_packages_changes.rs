//! What programs are told of packages that do not load.

use serde_json::json;

use crate::docker_packages::Host;

#[tokio::test]
async fn what_does_not_load_says_which_package_it_is_from() {
    let host = Host::new().await;
    host.install("python", json!(["tinyunloadable"])).await;
    for stateful in [false, true] {
        let arguments = json!({
            "conversationId": "demo", "language": "python", "code": "import tinyunload", "stateful": stateful,
        });
        let outcome = host.app.call("run_code", arguments).await;
        let told = outcome["stderr"].as_str().unwrap();
        let note = "Installed with install_packages: tinyunload is from tinyunloadable 1.0";
        assert_eq!(told.trim_end().lines().last(), Some(note), "{outcome}");
        // Nothing of ours is in the traceback.
        assert!(!told.contains("_sandbox"), "{told}");
        assert!(!told.contains("importlib"), "{told}");
    }
    host.ends().await;
}
