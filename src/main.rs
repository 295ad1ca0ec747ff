//! The command line. Everything worth testing is in the library.

use std::io::{self, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use clap::{Parser, Subcommand};
use mcp_code_sandbox::access::{AccessError, TokenCommand};
use mcp_code_sandbox::admin::{AdminCommand, CommandError};
use mcp_code_sandbox::app::App;
use mcp_code_sandbox::app::stdio::{self, StdioSetup};
use mcp_code_sandbox::audit::{AuditCommand, AuditError};
use mcp_code_sandbox::checks::selftest::{self, Row};
use mcp_code_sandbox::config::{self, Config, ConfigErrors, DotenvError, Environment};
use mcp_code_sandbox::control::Control;
use mcp_code_sandbox::executor::UnfitError;
use mcp_code_sandbox::oauth::OauthError;
use mcp_code_sandbox::secrets::certificates::CertificatesError;
use mcp_code_sandbox::secrets::{SecretsFileError, certificates};
use mcp_code_sandbox::telemetry;
use mcp_code_sandbox::workspace::UidsError;
use tokio::runtime::Runtime;

/// `EX_USAGE` of sysexits: the configuration is wrong, and starting again will not help.
const BAD_CONFIGURATION: u8 = 64;
/// `EX_UNAVAILABLE` of sysexits: there is no engine, or no runner, to test.
const UNAVAILABLE: u8 = 69;

/// How long the last lines of an audit log may take when everything else has ended.
const AUDIT_WAIT: Duration = Duration::from_secs(5);

/// Fills in what the environment does not set; read from the working directory and none above it.
const DOTENV: &str = ".env";

const HELP: &str = "\
Examples:
  mcp-code-sandbox                                   serve, with the settings of ./.env
  MCP_HTTP_ADDR=127.0.0.1:9300 mcp-code-sandbox      on another port
  mcp-code-sandbox help selftest                     about one command

All settings, with their defaults: .env.example and docs/configuration.md.";

const SERVE_HELP: &str = "\
Examples:
  mcp-code-sandbox serve
  MCP_HTTP_ADDR=127.0.0.1:9300 mcp-code-sandbox serve

Settings that matter most:
  MCP_API_TOKEN    what clients authenticate with, at least 16 characters; required
  FILE_SECRET      the secret behind names of directories, at least 32 characters; required
  MCP_HTTP_ADDR    where to listen [127.0.0.1:8080]
  PUBLIC_BASE_URL  where clients reach the server, for links to files
  SANDBOX_ROOT     where conversations' files are kept [./sandboxes]
  DOCKER_HOST      the engine [Docker's usual socket]

Exit codes: 0 stopped, 1 the address or the directory is not usable, 64 bad configuration, 75 of several servers, this
one leads no more.";

const STDIO_HELP: &str = "\
Examples:
  claude mcp add sandbox -- /usr/local/bin/mcp-code-sandbox stdio
  RUN_MEMORY=1g mcp-code-sandbox stdio

Settings that matter most:
  SANDBOX_ROOT     where conversations' files are kept [a directory of the user's own]
  RUN_MEMORY       memory of one run [256m]
  MCP_TOOLSET      default, artifacts or python [default]
  DOCKER_HOST      the engine [Docker's usual socket]

Exit codes: 0 the client has closed standard input, 1 something is not usable, 64 bad configuration.";

const CHECK_CONFIG_HELP: &str = "\
Examples:
  mcp-code-sandbox check-config
  RUN_MEMORY=1g mcp-code-sandbox check-config | grep RUN_

Every mistake is told at once, before anything is started.

Exit codes: 0 the configuration can be served with, 64 bad configuration.";

const SELFTEST_HELP: &str = "\
Examples:
  mcp-code-sandbox selftest
  mcp-code-sandbox selftest --json --only network-off,fork-bomb > report.json

Settings that matter most: those of the server, such as DOCKER_HOST, SANDBOX_RUNTIME, RUN_MEMORY, RUN_PIDS. It needs no
token, and may run beside a server.

Exit codes: 0 all held, 1 one failed, 64 bad configuration, 69 no engine or no runner, 75 some were not tried.";

const TOKEN_HELP: &str = "\
Examples:
  ACCESS_FILE=access.toml mcp-code-sandbox token new --tenant research --name n8n --expires 90d
  mcp-code-sandbox token list
  mcp-code-sandbox token revoke --tenant research --name n8n

Settings that matter most:
  ACCESS_FILE      the file, which only its owner may read; required

A server that has the file reads it again within two seconds.

Exit codes: 0 done, 64 the file is not usable, or there is no such token.";

const AUDIT_HELP: &str = "\
Examples:
  mcp-code-sandbox audit verify /var/log/mcp-code-sandbox/audit.log
  mcp-code-sandbox audit verify audit.log.2 audit.log.1 audit.log

It needs no settings. Files of one log are given the oldest first; docs/audit.md says what this proves.

Exit codes: 0 each line follows on the one before, 1 one does not, or a file cannot be read.";

const ADMIN_HELP: &str = "\
Examples:
  mcp-code-sandbox admin conversations --sort size --limit 20
  mcp-code-sandbox admin runs --json | jq -r '.runs[].id'

Settings that matter most:
  ADMIN_TOKEN      what the server was started with; required
  MCP_HTTP_ADDR    where the server listens; it is asked on the loopback if that is all interfaces [127.0.0.1:8080]

docs/admin.md says what the columns mean.

Exit codes: 0 done, 1 no server answers, or it refuses, 64 the settings do not say whom to ask.";

const HEALTHCHECK_HELP: &str = "\
Examples:
  mcp-code-sandbox healthcheck
  docker exec SERVER mcp-code-sandbox healthcheck && echo alive

Settings that matter most:
  MCP_HTTP_ADDR    where the server listens; it is asked on the loopback if that is all interfaces [127.0.0.1:8080]

It tells whether the server is alive. Whether it can run programs, GET /readyz says.

Exit codes: 0 alive, 1 no answer within 3 s or not 200, 64 bad configuration.";

/// MCP server that runs code in hardened, ephemeral containers. Settings are environment variables, or lines of .env in
/// the working directory.
#[derive(Debug, Parser)]
#[command(version = mcp_code_sandbox::VERSION, after_help = HELP)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Clone, Debug, Subcommand)]
enum Command {
    /// Serve MCP over HTTP (the default).
    #[command(after_help = SERVE_HELP)]
    Serve,
    /// Serve one MCP client on standard input and output, and files over HTTP on loopback. Needs no settings, and reads
    /// no .env.
    #[command(after_help = STDIO_HELP)]
    Stdio,
    /// Print the effective configuration with secrets hidden.
    #[command(after_help = CHECK_CONFIG_HELP)]
    CheckConfig,
    /// Run hostile programs in sandboxes of this configuration and say which controls hold. Takes a minute or two.
    #[command(after_help = SELFTEST_HELP)]
    Selftest {
        /// Print one JSON object at the end instead of a table.
        #[arg(long)]
        json: bool,
        /// Try only these controls, separated by commas.
        #[arg(long, value_delimiter = ',', value_parser = control)]
        only: Vec<Control>,
    },
    /// Make, list and revoke tokens of the file that `ACCESS_FILE` names.
    #[command(after_help = TOKEN_HELP)]
    Token {
        #[command(subcommand)]
        command: TokenCommand,
    },
    /// Check that no line of an audit log was changed, removed or added.
    #[command(after_help = AUDIT_HELP)]
    Audit {
        #[command(subcommand)]
        command: AuditCommand,
    },
    /// Ask the running server of this configuration who uses it, what is kept and what runs, and end that.
    #[command(after_help = ADMIN_HELP)]
    Admin {
        /// Print the answer as JSON.
        #[arg(long, global = true)]
        json: bool,
        #[command(subcommand)]
        command: AdminCommand,
    },
    /// Ask the server of this configuration whether it is alive; for container health checks.
    #[command(after_help = HEALTHCHECK_HELP)]
    Healthcheck,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    run(cli.command.unwrap_or(Command::Serve)).unwrap_or_else(|error| {
        complain(&format!("{error:#}"));
        let is_bad_configuration = error.is::<ConfigErrors>()
            || error.is::<DotenvError>()
            || error.is::<AccessError>()
            || error.is::<AuditError>()
            || error.is::<OauthError>()
            || error.is::<SecretsFileError>()
            || error.is::<CertificatesError>()
            || error.is::<UnfitError>()
            || error.is::<UidsError>()
            || matches!(
                error.downcast_ref(),
                Some(CommandError::NoToken | CommandError::NoUrl { .. } | CommandError::Config(_))
            );
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
    for warning in config::misspelt(environment.names(), environment.names_in_file()) {
        complain(&warning);
    }
    let lookup = |name: &str| environment.get(name);
    for note in config::foreign(&lookup) {
        complain(&note);
    }
    let no_settings = || {
        let is_set = ["MCP_API_TOKEN", "FILE_SECRET"].map(|name| lookup(name).is_some());
        if is_set == [false; 2] && !io::stdin().is_terminal() {
            complain("did you mean `mcp-code-sandbox stdio`? It needs no settings.");
        }
    };
    // What is wrong with lines hides nothing that is wrong with the settings of others.
    let lines = environment.check_lines();
    let checked = |config: Result<Config, ConfigErrors>| match (lines, config) {
        (Err(lines), Err(errors)) => {
            complain(&lines.to_string());
            Err(errors.into())
        }
        (Err(lines), Ok(_)) => Err(anyhow::Error::from(lines)),
        (Ok(()), config) => Ok(config?),
    };
    match command {
        Command::Serve => serve(checked(
            Config::from_lookup(&lookup).inspect_err(|_| no_settings()),
        )?),
        Command::Stdio => serve_stdio(stdio::set_up(&lookup)?),
        Command::CheckConfig => check_config(&checked(Config::from_lookup(&lookup))?),
        Command::Token { command } => {
            print(&command.run(lookup("ACCESS_FILE").map(PathBuf::from).as_deref())?);
            Ok(ExitCode::SUCCESS)
        }
        Command::Audit { command } => {
            print(&command.run()?.to_string());
            Ok(ExitCode::SUCCESS)
        }
        Command::Admin { json, command } => {
            print(&runtime()?.block_on(command.run(&lookup, json))?);
            Ok(ExitCode::SUCCESS)
        }
        // Needs no secrets, since nobody connects.
        Command::Selftest { json, only } => {
            selftest(checked(Config::for_selftest(&lookup))?, json, &only)
        }
        Command::Healthcheck => {
            mcp_code_sandbox::healthcheck(checked(Config::from_lookup(&lookup))?.http.addr)
                .context("the server does not answer")?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// Checks all that a server with these settings would check when it starts, and shows them.
fn check_config(config: &Config) -> anyhow::Result<ExitCode> {
    let access = App::access(config)?;
    let secrets = App::secrets(config, &access)?;
    certificates::of_operator(config.network.ca_bundle.as_deref())?;
    App::oauth(config)?;
    if let Some(warning) = config.oauth.warning() {
        complain(&format!("warning: {warning}"));
    }
    runtime()?.block_on(App::check_engine(config))?;
    print(config.to_string().trim_end());
    for secret in secrets.declared() {
        print(&format!("# the secret {secret}"));
    }
    Ok(ExitCode::SUCCESS)
}

fn serve(config: Config) -> anyhow::Result<ExitCode> {
    telemetry::init(&config.log);
    let (is_replica, audits) = (config.is_replica(), config.audit.log.is_some());
    let runtime = runtime()?;
    let served = runtime.block_on(App::serve_alone_or_not(config));
    if is_replica {
        // Another one leads from now on: nothing may be written any more.
        runtime.shutdown_background();
    } else if audits {
        // Who reads its standard output may read no more, or its disk hang.
        runtime.shutdown_timeout(AUDIT_WAIT);
    }
    served.map(|()| ExitCode::SUCCESS)
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
    let print_row = |row: &Row| {
        if !json {
            print(&row.to_string());
        }
    };
    let tested = runtime()?.block_on(async {
        App::check_engine(&config).await?;
        if !json {
            print(&selftest::header());
        }
        App::run_selftest(config, only, &print_row).await
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
