//! The command line. Everything worth testing is in the library.

use std::path::Path;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::{Parser, Subcommand};
use mcp_code_sandbox::app::{App, stdio};
use mcp_code_sandbox::config::{self, Config, Environment};
use mcp_code_sandbox::control::Control;
use mcp_code_sandbox::selftest::{self, Row};
use mcp_code_sandbox::telemetry;

/// `EX_USAGE` of sysexits: the configuration is wrong, starting again does not help.
const BAD_CONFIGURATION: u8 = 64;
/// `EX_UNAVAILABLE` of sysexits: there is no engine, or no runner, to test.
const UNAVAILABLE: u8 = 69;

/// Fills in what the environment does not set, in the working directory and in none above it.
const DOTENV: &str = ".env";

/// Where the value of a setting comes from.
type Lookup<'a> = dyn Fn(&str) -> Option<String> + 'a;

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
    match run(cli.command.unwrap_or(Command::Serve)) {
        Ok(code) => code,
        Err(error) => {
            complain(&format!("{error:#}"));
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> anyhow::Result<ExitCode> {
    // A client starts its server wherever it works: a file there is somebody else's.
    let environment = match command {
        Command::Stdio => Environment::default(),
        _ => match Environment::with_file(Path::new(DOTENV)) {
            Ok(environment) => environment,
            Err(error) => {
                complain(&error.to_string());
                return Ok(ExitCode::from(BAD_CONFIGURATION));
            }
        },
    };
    for warning in config::misspelt(environment.names()) {
        complain(&warning);
    }
    let lookup = |name: &str| environment.get(name);
    // It has settings of its own, so those of the others may be missing.
    match command {
        Command::Stdio => return serve_stdio(&lookup),
        Command::Selftest { json, only } => return selftest(&lookup, json, &only),
        _ => {}
    }
    let config = match Config::from_lookup(&lookup) {
        Ok(config) => config,
        Err(errors) => {
            complain(&errors.to_string());
            return Ok(ExitCode::from(BAD_CONFIGURATION));
        }
    };
    match command {
        Command::CheckConfig => {
            print(config.to_string().trim_end());
            Ok(ExitCode::SUCCESS)
        }
        Command::Healthcheck => Ok(match mcp_code_sandbox::healthcheck(config.http.addr) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                complain(&format!("the server does not answer: {error}"));
                ExitCode::FAILURE
            }
        }),
        Command::Stdio | Command::Selftest { .. } | Command::Serve => {
            telemetry::init(&config.log);
            let runtime = tokio::runtime::Runtime::new().context("cannot start the runtime")?;
            runtime.block_on(async { App::build(config)?.serve().await })?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn control(name: &str) -> Result<Control, String> {
    Control::named(name).ok_or_else(|| {
        let names: Vec<_> = Control::ALL.iter().map(|control| control.name()).collect();
        format!("the controls are {}", names.join(", "))
    })
}

/// Needs no secrets, since nobody comes in.
fn selftest(lookup: &Lookup<'_>, json: bool, only: &[Control]) -> anyhow::Result<ExitCode> {
    let config = match Config::for_selftest(lookup) {
        Ok(config) => config,
        Err(errors) => {
            complain(&errors.to_string());
            return Ok(ExitCode::from(BAD_CONFIGURATION));
        }
    };
    telemetry::init(&config.log);
    let runtime = tokio::runtime::Runtime::new().context("cannot start the runtime")?;
    let tell = |row: &Row| {
        if !json {
            print(&row.to_string());
        }
    };
    if !json {
        print(&selftest::header());
    }
    match runtime.block_on(App::run_selftest(config, only, &tell))? {
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

fn serve_stdio(lookup: &Lookup<'_>) -> anyhow::Result<ExitCode> {
    let setup = match stdio::set_up(lookup)? {
        Ok(setup) => setup,
        Err(errors) => {
            complain(&errors.to_string());
            return Ok(ExitCode::from(BAD_CONFIGURATION));
        }
    };
    telemetry::init(&setup.config.log);
    let runtime = tokio::runtime::Runtime::new().context("cannot start the runtime")?;
    let result = runtime.block_on(App::serve_stdio(setup));
    // A read of standard input that nobody waits for any more must not keep the process.
    runtime.shutdown_background();
    result.map(|()| ExitCode::SUCCESS)
}

#[expect(clippy::print_stdout, reason = "the output of commands")]
fn print(text: &str) {
    println!("{text}");
}

#[expect(clippy::print_stderr, reason = "there is no log yet")]
fn complain(message: &str) {
    eprintln!("{message}");
}
