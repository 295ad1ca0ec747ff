//! A request becomes a program, a runner and what both need, or is refused.

use std::sync::Arc;
use std::time::Duration;

use super::hint::TimeLimit;
use super::{RunError, RunRequest, Runs, environment, source};
use crate::conversation::Conversation;
use crate::executor::spec::NetworkAccess;
use crate::gate::Wants;
use crate::runner::Runner;
use crate::sandbox::{Program, RECORDS_VARIABLE};

/// A request that passed every check, with what it needs.
pub(super) struct PreparedRun {
    pub(super) runner: Arc<Runner>,
    pub(super) program: Program,
    /// What it may reach, once that is known.
    pub(super) network: NetworkAccess,
    /// Whether it may use a sandbox that already exists, and leave it for the next run.
    pub(super) may_be_warm: bool,
    pub(super) conversation: Conversation,
    /// Whether it runs in a kernel.
    pub(super) stateful: bool,
    /// What it is told if it takes too long.
    pub(super) time: TimeLimit,
}

impl PreparedRun {
    /// Sets what it may reach, and gives the program the placeholders of the secrets that it may use there.
    pub(super) fn set_network(&mut self, network: &NetworkAccess) {
        self.network = network.clone();
        let NetworkAccess::Listed(access) = network else {
            return;
        };
        let secrets = access.secrets.iter();
        let placeholders = secrets.map(|it| (it.variable.clone(), it.placeholder.clone()));
        self.program.env.extend(placeholders);
    }
}

impl Runs {
    pub(super) fn prepare(
        &self,
        wants: &Wants,
        request: &RunRequest,
    ) -> Result<PreparedRun, RunError> {
        let timeout = request.timeout.unwrap_or(self.limits.timeout);
        let (may_be_warm, view) = match wants {
            // The program is ours, so limits on what callers may ask for do not apply to it.
            Wants::Check { may_be_warm, .. } => (*may_be_warm, self.gate.catalog.view()),
            Wants::Run(_) | Wants::Install => {
                self.check_limits(request, timeout)?;
                (true, self.gate.view_for(request.conversation.tenant()))
            }
        };
        let conversation = request.conversation.clone();
        let runner =
            view.find(&request.language)
                .cloned()
                .ok_or_else(|| RunError::UnknownLanguage {
                    language: request.language.chars().take(64).collect(),
                    known: view.runners.keys().cloned().collect(),
                });
        if let (true, Ok(runner)) = (request.stateful, &runner)
            && !self.kernels.are_for(runner)
        {
            let runners = view.runners.values();
            let with_kernels = runners.filter(|runner| self.kernels.are_for(runner));
            return Err(RunError::NoKernel {
                language: runner.language.clone(),
                known: with_kernels.map(|each| each.language.clone()).collect(),
            });
        }
        let mut env = environment::environment(
            &request.environment,
            &request.secrets,
            self.files.links.base_for(conversation.key()),
        )?;
        let mark = request.kernel.records.filter(|_| request.stateful);
        env.extend(mark.map(|mark| (RECORDS_VARIABLE.to_owned(), mark.to_string())));
        let runner = runner?;
        let program = Program {
            code: source::program(&request.code, &runner, &view)?,
            stdin: source::stdin(request, &runner)?,
            env,
            deadline: timeout,
        };
        Ok(PreparedRun {
            runner,
            program,
            network: NetworkAccess::None,
            may_be_warm,
            conversation,
            stateful: request.stateful,
            time: TimeLimit {
                length: timeout,
                argument: request.time_argument,
            },
        })
    }

    fn check_limits(&self, request: &RunRequest, timeout: Duration) -> Result<(), RunError> {
        let limits = &self.limits;
        if request.code.len() > limits.code {
            return Err(RunError::CodeTooLarge(request.code.len(), limits.code));
        }
        if timeout.is_zero() || timeout > limits.timeout_max {
            let max = limits.timeout_max.as_secs_f64();
            return Err(RunError::Timeout(timeout.as_secs_f64(), max));
        }
        Ok(())
    }
}
