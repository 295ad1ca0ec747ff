//! A browser with the page in it, and a server behind the page.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::{Value, json};
use tempfile::TempDir;
use thirtyfour::Key;
use thirtyfour::prelude::*;
use tokio::process::{Child, Command};
use tokio::time::timeout;

use crate::support::TOKEN;
use crate::support::server::{Server, free_address};
use crate::support::wait::within;

/// How long anything on the page may take. A cold start on a busy machine takes some seconds.
const SOON: Duration = Duration::from_mins(1);

/// A name that only the browser knows, for this machine.
pub(super) const PUBLIC_HOST: &str = "sandbox.example";

/// Tests that a page is enough for, one after another on the same one: a browser and a server take longer to start than
/// most of them. Each finds the page as if it was opened for it.
macro_rules! on_one_page {
    ($page:ident, $first:ident $(, $next:ident)*) => {
        $first(&$page).await;
        $($page.afresh().await; $next(&$page).await;)*
    };
}
pub(super) use on_one_page;

/// The page. Dropping it ends the browser.
pub(super) struct Page {
    pub(super) driver: WebDriver,
    pub(super) server: Option<Server>,
    process: Child,
    directory: TempDir,
}

impl Page {
    /// The page of a new server, opened and let in.
    pub(super) async fn open(settings: &[(&str, &str)]) -> Self {
        let page = Self::without_token(settings).await;
        page.enter().await;
        page
    }

    /// The same before a token was given.
    pub(super) async fn without_token(settings: &[(&str, &str)]) -> Self {
        let addr = free_address().await;
        Self::behind(&format!("http://{addr}/"), addr, settings).await
    }

    /// The same where the page is at the public address, so that people can log in on it.
    pub(super) async fn at_public_address(settings: &[(&str, &str)]) -> Self {
        let addr = free_address().await;
        let base = format!("http://{addr}");
        let own = [("PUBLIC_BASE_URL", &*base)];
        Self::behind(&format!("{base}/"), addr, &[settings, &own].concat()).await
    }

    /// The page of a server at `addr` that browsers know by another address.
    pub(super) async fn behind(home: &str, addr: SocketAddr, settings: &[(&str, &str)]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        // Nothing is kept warm for conversations that run one program.
        let cold = [("POOL_SIZE", "0"), ("SANDBOX_REUSE", "never")];
        let settings = [&cold, settings].concat();
        let server = Server::start_at(addr, directory.path(), &settings).await;
        let ((), (process, driver)) =
            tokio::join!(server.until_ready(SOON), browser(directory.path()));
        let page = Self {
            driver,
            server: Some(server),
            process,
            directory,
        };
        page.load(home).await;
        page
    }

    /// Loads the page until it is there with all its parts. Chromium drops what it is loading when an interface of the
    /// machine comes or goes, as they do where containers with networks are started.
    async fn load(&self, url: &str) {
        let limit = Duration::from_secs(10);
        let _ = self.driver.set_page_load_timeout(limit).await;
        let there = async || {
            let _ = self.driver.goto(url).await;
            // Somebody may be let in at once.
            let script = "return document.querySelector('#token-dialog')?.open
                || document.querySelector('#run')?.disabled === false";
            (self.js(script, Vec::new()).await == true).then_some(())
        };
        within(SOON, "the page is loaded", there).await;
        self.driver.browser_log().await.unwrap();
    }

    /// Loads the page again, as often as it takes, as `load` does.
    pub(super) async fn reload(&self) {
        let there = async || {
            let _ = self.driver.refresh().await;
            let script = "return Boolean(document.querySelector('#editor')?.shadowRoot)";
            (self.js(script, Vec::new()).await == true).then_some(())
        };
        within(SOON, "the page is loaded again", there).await;
    }

    /// Goes to another page until it has an element, and forgets what the browser had to say against the way.
    pub(super) async fn go(&self, url: &str, element: &str) {
        self.driver.goto(url).await.unwrap();
        self.until(&format!("document.querySelector('{element}')"))
            .await;
        self.driver.browser_log().await.unwrap();
    }

    /// As if it was opened again, by somebody who was never here.
    pub(super) async fn afresh(&self) {
        self.assert_no_complaints().await;
        let script = "return location.origin";
        let origin = self.js(script, Vec::new()).await;
        let origin = origin.as_str().unwrap();
        // Not on the page, which may keep something when it is left.
        self.driver.goto(format!("{origin}/healthz")).await.unwrap();
        let script = "localStorage.clear(); sessionStorage.clear()";
        self.js(script, Vec::new()).await;
        self.cdp("Emulation.clearDeviceMetricsOverride", json!({}))
            .await;
        for (method, params) in [
            (
                "Emulation.setTouchEmulationEnabled",
                json!({ "enabled": false }),
            ),
            ("Emulation.setEmulatedMedia", json!({ "features": [] })),
        ] {
            self.cdp(method, params).await;
        }
        self.load(&format!("{origin}/")).await;
        self.enter().await;
    }

    async fn enter(&self) {
        self.give_token(TOKEN).await;
        self.until("!document.getElementById('run').disabled").await;
    }

    /// Where the server has its files, beside the browser's.
    pub(super) fn root(&self) -> &Path {
        self.directory.path()
    }

    /// Where the browser puts downloads.
    pub(super) fn downloads(&self) -> PathBuf {
        self.root().join("downloads")
    }

    /// Ends the browser, then the server, which takes its containers away.
    pub(super) async fn close(mut self) {
        self.assert_no_complaints().await;
        self.driver.clone().quit().await.unwrap();
        if let Some(mut server) = self.server.take() {
            server.signal(Signal::TERM);
            server.ended(SOON).await;
        }
    }

    async fn assert_no_complaints(&self) {
        let complaints = self.complaints().await;
        assert!(
            complaints.is_empty(),
            "the browser complained: {complaints:?}"
        );
    }

    /// What the browser had to say against the page, but for answers that the page deals with, and for the style that
    /// Chromium itself writes when a selection is typed over in an editor. The page's policy refuses that too, and
    /// nothing is lost.
    async fn complaints(&self) -> Vec<String> {
        let log = self.driver.browser_log().await.unwrap();
        let texts = log.into_iter().map(|entry| entry.message);
        let known = ["Failed to load resource", "/ - Applying inline style"];
        texts
            .filter(|text| !known.iter().any(|known| text.contains(known)))
            .collect()
    }

    pub(super) async fn find(&self, css: &str) -> WebElement {
        self.driver
            .find(By::Css(css))
            .await
            .unwrap_or_else(|error| panic!("{css}: {error}"))
    }

    pub(super) async fn click(&self, css: &str) {
        let clicked = self.find(css).await.click().await;
        clicked.unwrap_or_else(|error| panic!("{css}: {error}"));
    }

    /// The value of a script.
    pub(super) async fn js(&self, script: &str, arguments: Vec<Value>) -> Value {
        let result = self.driver.execute(script, arguments).await;
        result
            .unwrap_or_else(|error| panic!("{script}: {error}"))
            .json()
            .clone()
    }

    /// Asks `answer` before every call of the page but uploads: a function in JavaScript that takes the tool, its
    /// arguments and the call's id, and gives a `Response` for calls that are not to reach the server. `calls` has all.
    pub(super) async fn intercept(&self, answer: &str) {
        let script = format!(
            "const real = window.realFetch ??= window.fetch;
            const answer = {answer};
            window.calls = [];
            window.fetch = async (address, options) => {{
              if (!options?.body) return real(address, options);
              const {{ id, params: {{ name, arguments: given }} }} = JSON.parse(options.body);
              calls.push([name, given]);
              return await answer(name, given, id) ?? real(address, options);
            }};"
        );
        self.js(&script, Vec::new()).await;
    }

    /// Keeps the next upload from the server, until `upload` does something with the request. `sent` is its body.
    pub(super) async fn hold_upload(&self) {
        let script = "
            const { send } = XMLHttpRequest.prototype;
            XMLHttpRequest.prototype.send = function(body) {
              XMLHttpRequest.prototype.send = send;
              Object.assign(window, { upload: this, sent: body });
            };
            window.upload = null;";
        self.js(script, Vec::new()).await;
    }

    /// The id of the conversation.
    pub(super) async fn conversation(&self) -> String {
        let script = "return document.getElementById('conversation').value";
        let id = self.js(script, Vec::new()).await;
        id.as_str().unwrap().to_owned()
    }

    /// Waits until an expression is true.
    pub(super) async fn until(&self, expression: &str) {
        let script = format!("return Boolean({expression})");
        // Asking costs the browser, the page and this about as much as a small program.
        let waiting = async {
            let mut pause = Duration::from_millis(20);
            while self.js(&script, Vec::new()).await != true {
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(Duration::from_millis(100));
            }
        };
        if timeout(SOON, waiting).await.is_err() {
            let notices = self.text("#notices").await;
            let log = self.driver.browser_log().await.unwrap();
            panic!("did not happen: {expression}; notices: {notices:?}; log: {log:?}");
        }
    }

    /// All text of an element as it is, not as it is laid out.
    pub(super) async fn text(&self, css: &str) -> String {
        let text = self
            .js(
                "return document.querySelector(arguments[0]).textContent",
                vec![json!(css)],
            )
            .await;
        text.as_str().unwrap().to_owned()
    }

    pub(super) async fn give_token(&self, token: &str) {
        let field = self.find("#token").await;
        field.send_keys(token).await.unwrap();
        field.send_keys(Key::Enter).await.unwrap();
    }

    /// Waits until the browser has come to a page with this element, on whatever way.
    pub(super) async fn arrives(&self, css: &str) {
        let there = async || self.driver.find(By::Css(css)).await.ok();
        within(SOON, css, there).await;
    }

    /// Types on the keyboard, wherever the focus is.
    pub(super) async fn type_text(&self, text: &str) {
        let keys = self.driver.action_chain().send_keys(text);
        keys.perform().await.unwrap();
    }

    /// Goes on with the Tab key until something has the focus.
    pub(super) async fn tab_to(&self, id: &str) {
        for _ in 0..40 {
            self.press(Key::Tab).await;
            let focused = self.focused().await;
            if focused == id {
                return;
            }
            if focused == "editor" {
                self.press(Key::Escape).await;
            }
        }
        panic!("{id} is out of reach of the keyboard");
    }

    /// Presses a key, wherever the focus is.
    pub(super) async fn press(&self, key: Key) {
        let keys = self.driver.action_chain().send_keys(key);
        keys.perform().await.unwrap();
    }

    /// The id of what has the focus.
    pub(super) async fn focused(&self) -> Value {
        self.js("return document.activeElement.id", Vec::new())
            .await
    }

    pub(super) async fn choose(&self, css: &str, value: &str) {
        self.click(&format!("{css} option[value='{value}']")).await;
    }

    /// Replaces the program by pasting, as people do.
    pub(super) async fn paste_program(&self, code: &str) {
        let script = "
            const content = document.querySelector('#editor').shadowRoot.querySelector('.cm-content');
            content.focus();
            document.execCommand('selectAll');
            const clipboardData = new DataTransfer();
            clipboardData.setData('text/plain', arguments[0]);
            content.dispatchEvent(new ClipboardEvent('paste', { clipboardData, bubbles: true, cancelable: true }));";
        self.js(script, vec![json!(code)]).await;
    }

    /// Starts a program, and does not wait for anything.
    pub(super) async fn start(&self, language: &str, code: &str) {
        self.choose("#language", language).await;
        self.paste_program(code).await;
        self.click("#run").await;
    }

    /// Waits for the end of the run. Gives the word that the page has for it.
    pub(super) async fn ended(&self) -> String {
        self.until("document.getElementById('status').dataset.state !== 'running' && !document.getElementById('run').hidden").await;
        self.two_frames().await;
        self.text("#status").await
    }

    /// Runs a program to its end. Gives the word for it and what was printed.
    pub(super) async fn run(&self, language: &str, code: &str) -> (String, String) {
        self.start(language, code).await;
        let word = self.ended().await;
        (word, self.text("#output").await)
    }

    pub(super) async fn cdp(&self, method: &str, params: Value) -> Value {
        self.driver.cdp().send_raw(method, params).await.unwrap()
    }

    /// Light or dark, or the colours that a system has for those who see little, as the system would say.
    pub(super) async fn scheme(&self, scheme: &str) {
        let forced = if scheme == "forced" { "active" } else { "none" };
        let features = json!([
            { "name": "prefers-color-scheme", "value": scheme },
            { "name": "prefers-reduced-motion", "value": "reduce" },
            { "name": "forced-colors", "value": forced },
        ]);
        self.cdp(
            "Emulation.setEmulatedMedia",
            json!({ "features": features }),
        )
        .await;
        self.two_frames().await;
    }

    /// What is still to be shown is shown in the next frames.
    async fn two_frames(&self) {
        self.driver
            .execute_async(
                "requestAnimationFrame(() => requestAnimationFrame(arguments[0]))",
                Vec::new(),
            )
            .await
            .unwrap();
    }

    /// The size of the window; a phone has a touch screen too.
    pub(super) async fn size(&self, width: u32, height: u32, phone: bool) {
        let scale = if phone { 2 } else { 1 };
        let metrics = json!({ "width": width, "height": height, "deviceScaleFactor": scale, "mobile": phone });
        self.cdp("Emulation.setDeviceMetricsOverride", metrics)
            .await;
        self.cdp(
            "Emulation.setTouchEmulationEnabled",
            json!({ "enabled": phone }),
        )
        .await;
    }

    /// A picture of what is on the screen, for people to look at.
    pub(super) async fn screenshot(&self, name: &str) {
        let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("page");
        std::fs::create_dir_all(&directory).unwrap();
        let path = directory.join(name).with_extension("png");
        self.driver.screenshot(&path).await.unwrap();
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        // The browser's processes too, when a test has failed.
        if let Some(group) = self
            .process
            .id()
            .and_then(|id| Pid::from_raw(id.cast_signed()))
        {
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

/// A browser and the process that drives it, in a process group of their own.
async fn browser(root: &Path) -> (Child, WebDriver) {
    let port = free_address().await.port();
    let process = Command::new("chromedriver")
        .arg(format!("--port={port}"))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
        .expect("chromedriver is missing: run ./test.sh browser");
    let mut capabilities = DesiredCapabilities::chrome();
    for argument in [
        "--headless=new",
        // Chromium refuses to be root with its own sandbox.
        "--no-sandbox",
        "--disable-dev-shm-usage",
        "--disable-gpu",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--lang=en",
        "--window-size=1360,860",
    ] {
        capabilities.add_arg(argument).unwrap();
    }
    let names = format!("--host-resolver-rules=MAP {PUBLIC_HOST} 127.0.0.1");
    capabilities.add_arg(&names).unwrap();
    capabilities
        .add_arg(&format!(
            "--user-data-dir={}",
            root.join("profile").display()
        ))
        .unwrap();
    let downloads = root.join("downloads");
    let preferences =
        json!({ "download.default_directory": downloads, "download.prompt_for_download": false });
    capabilities
        .add_experimental_option("prefs", preferences)
        .unwrap();
    let url = format!("http://127.0.0.1:{port}");
    let connect = async || WebDriver::new(&url, capabilities.clone()).await.ok();
    let driver = within(SOON, "the browser starts", connect).await;
    (process, driver)
}
