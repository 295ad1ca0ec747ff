//! The command line. Everything worth testing is in the library.

use std::io::{self, IsTerminal as _, Write as _};
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::{Parser, Subcommand};
use mcp_code_sandbox::app::App;
use mcp_code_sandbox::app::stdio::{self, StdioSetup};
use mcp_code_sandbox::config::{self, Config, ConfigErrors, DotenvError, Environment};
use mcp_code_sandbox::control::Control;
use mcp_code_sandbox::executor::UnfitError;
use mcp_code_sandbox::selftest::{self, Row};
use mcp_code_sandbox::telemetry;
use mcp_code_sandbox::workspace::UidsError;
use tokio::runtime::Runtime;

/// `EX_USAGE` of sysexits: the configuration is wrong, and starting again will not help.
const BAD_CONFIGURATION: u8 = 64;
/// `EX_UNAVAILABLE` of sysexits: there is no engine, or no runner, to test.
const UNAVAILABLE: u8 = 69;

/// Fills in what the environment does not set; read from the working directory and none above it.
const DOTENV: &str = ".env";

/// MCP server that runs code in hardened, ephemeral containers. Settings are environment variables: see .env.example.
#[derive(Debug, Parser)]
#[command(version = mcp_code_sandbox::VERSION)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Clone, Debug, Subcommand)]
enum Command {
    /// Serve MCP over HTTP (the default).
    Serve,
    /// Serve one MCP client on standard input and output, and files over HTTP on loopback. Needs no settings, and reads
    /// no .env.
    Stdio,
    /// Print the effective configuration with secrets hidden.
    CheckConfig,
    /// Run hostile programs in sandboxes of this configuration and say which controls hold. Takes a minute or two.
    ///
    /// Exit codes: 0 all held, 1 one failed, 64 bad configuration, 69 no engine or no runner, 75 some were not tried.
    Selftest {
        /// Print one JSON object at the end instead of a table.
        #[arg(long)]
        json: bool,
        /// Try only these controls, separated by commas.
        #[arg(long, value_delimiter = ',', value_parser = control)]
        only: Vec<Control>,
    },
    /// Ask the server of this configuration whether it is alive; for container health checks.
    Healthcheck,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    run(cli.command.unwrap_or(Command::Serve)).unwrap_or_else(|error| {
        complain(&format!("{error:#}"));
        let is_bad_configuration = error.is::<ConfigErrors>()
            || error.is::<DotenvError>()
            || error.is::<UnfitError>()
            || error.is::<UidsError>();
        if is_bad_configuration {
            ExitCode::from(BAD_CONFIGURATION)
        } else {
            ExitCode::FAILURE
        }
    })
}

fn run(command: Command) -> anyhow::Result<ExitCode> {
    // A client starts its server in any directory: a .env there belongs to something else.
    let environment = match command {
        Command::Stdio => Environment::default(),
        _ => Environment::with_file(Path::new(DOTENV))?,
    };
    for warning in config::misspelt(environment.names()) {
        complain(&warning);
    }
    let lookup = |name: &str| environment.get(name);
    for note in config::foreign(&lookup) {
        complain(&note);
    }
    match command {
        Command::Serve => {
            let config = Config::from_lookup(&lookup).inspect_err(|_| {
                let is_set = ["MCP_API_TOKEN", "FILE_SECRET"].map(|name| lookup(name).is_some());
                if is_set == [false; 2] && !io::stdin().is_terminal() {
                    complain("did you mean `mcp-code-sandbox stdio`? It needs no settings.");
                }
            });
            serve(config?)
        }
        Command::Stdio => serve_stdio(stdio::set_up(&lookup)?),
        Command::CheckConfig => {
            let config = Config::from_lookup(&lookup)?;
            runtime()?.block_on(App::check_engine(&config))?;
            print(config.to_string().trim_end());
            Ok(ExitCode::SUCCESS)
        }
        // Needs no secrets, since nobody connects.
        Command::Selftest { json, only } => selftest(Config::for_selftest(&lookup)?, json, &only),
        Command::Healthcheck => {
            mcp_code_sandbox::healthcheck(Config::from_lookup(&lookup)?.http.addr)
                .context("the server does not answer")?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn serve(config: Config) -> anyhow::Result<ExitCode> {
    telemetry::init(&config.log);
    runtime()?.block_on(async { App::build(config)?.serve().await })?;
    Ok(ExitCode::SUCCESS)
}

fn serve_stdio(setup: StdioSetup) -> anyhow::Result<ExitCode> {
    telemetry::init(&setup.config.log);
    let runtime = runtime()?;
    let result = runtime.block_on(App::serve_stdio(setup));
    // A read of standard input that nobody waits for any more must not keep the process alive.
    runtime.shutdown_background();
    result.map(|()| ExitCode::SUCCESS)
}

fn runtime() -> anyhow::Result<Runtime> {
    Runtime::new().context("cannot start the runtime")
}

fn control(name: &str) -> Result<Control, String> {
    Control::named(name).ok_or_else(|| {
        let names: Vec<_> = Control::ALL.iter().map(|control| control.name()).collect();
        format!("the controls are {}", names.join(", "))
    })
}

fn selftest(config: Config, json: bool, only: &[Control]) -> anyhow::Result<ExitCode> {
    telemetry::init(&config.log);
    let tell = |row: &Row| {
        if !json {
            print(&row.to_string());
        }
    };
    let tested = runtime()?.block_on(async {
        App::check_engine(&config).await?;
        if !json {
            print(&selftest::header());
        }
        App::run_selftest(config, only, &tell).await
    });
    match tested? {
        Ok(report) => {
            print(&if json {
                report.to_json()
            } else {
                report.summary()
            });
            Ok(ExitCode::from(report.exit_code()))
        }
        Err(reason) => {
            complain(&format!("nothing could be tried: {reason}"));
            Ok(ExitCode::from(UNAVAILABLE))
        }
    }
}

/// For the output of commands. A reader that has gone away is no reason to stop halfway.
fn print(text: &str) {
    let _ = writeln!(io::stdout(), "{text}");
}

/// For what is reported before there is a log.
fn complain(message: &str) {
    let _ = writeln!(io::stderr(), "{message}");
}
