//! The task that writes events, in the order in which they happened, away from the threads that serve.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::signal::unix::Signal;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

use super::Shared;
use super::denials::WINDOW;
use super::event::Event;
use super::line::Dated;
use super::log::Log;

/// Most events that are written at once.
const BATCH: usize = 128;

/// What the task is given to do.
#[derive(Debug)]
pub(super) struct Entry {
    /// What is to be written; nothing if somebody only asks whether the log can be.
    pub(super) dated: Option<Dated>,
    /// Who waits to hear whether it is.
    pub(super) written: Option<oneshot::Sender<bool>>,
}

/// The task.
pub(super) struct Writer {
    pub(super) log: Log,
    pub(super) shared: Arc<Shared>,
    pub(super) entries: mpsc::Receiver<Entry>,
    /// At which the file is opened again.
    pub(super) hangups: Option<Signal>,
}

impl Writer {
    /// Writes until `stop`, and then what is left.
    pub(super) async fn run(mut self, stop: CancellationToken) {
        let mut ticks = interval(WINDOW);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (mut batch, mut is_stopping) = (Vec::with_capacity(BATCH), false);
        loop {
            tokio::select! {
                count = self.entries.recv_many(&mut batch, BATCH) => if count == 0 {
                    if self.shared.lost.load(Ordering::Relaxed) > 0 {
                        self.off_thread(|writer| writer.write(Vec::new())).await;
                    }
                    return;
                },
                () = self.shared.more_lost.notified() => {}
                () = next(&mut self.hangups) => {
                    let Some(reopened) = self.off_thread(reopen).await else { return };
                    self = reopened;
                }
                _ = ticks.tick() => {
                    let left_out = self.shared.denials.lock().over(Instant::now());
                    batch.extend(left_out.map(|count| Entry {
                        dated: Some(Dated::now(Event::AuthDeniedMore { count })),
                        written: None,
                    }));
                }
                () = stop.cancelled(), if !is_stopping => {
                    is_stopping = true;
                    self.entries.close();
                }
            }
            // What is lost is told as soon as it can be.
            if batch.is_empty() && self.shared.is_ok.load(Ordering::Relaxed) {
                continue;
            }
            let entries = std::mem::take(&mut batch);
            let Some(wrote) = self.off_thread(|writer| writer.write(entries)).await else {
                return;
            };
            self = wrote;
        }
    }

    /// Does something that may block.
    async fn off_thread(mut self, work: impl FnOnce(&mut Self) + Send + 'static) -> Option<Self> {
        let shared = Arc::clone(&self.shared);
        let done = tokio::task::spawn_blocking(move || {
            work(&mut self);
            self
        });
        match done.await {
            Ok(writer) => Some(writer),
            Err(error) => {
                shared.is_ok.store(false, Ordering::Relaxed);
                error!(%error, "the audit log is written no more");
                None
            }
        }
    }

    fn write(&mut self, entries: Vec<Entry>) {
        self.log.lose(self.shared.lost.swap(0, Ordering::Relaxed));
        let lost = self.log.lost();
        let mut events = Vec::with_capacity(entries.len());
        let mut waiting = Vec::new();
        for entry in entries {
            events.extend(entry.dated);
            // It is written when all up to here are.
            waiting.extend(entry.written.map(|written| (events.len(), written)));
        }
        let (recorded, result) = self.log.write(&events);
        let is_ok = result.is_ok();
        match result {
            Ok(()) if !self.shared.is_ok.swap(true, Ordering::Relaxed) => {
                info!(lost, "the audit log is written again");
            }
            Err(error) if self.shared.is_ok.swap(false, Ordering::Relaxed) => {
                let error = &error as &dyn std::error::Error;
                warn!(error, "the audit log cannot be written: events are lost");
            }
            Ok(()) | Err(_) => {}
        }
        for (upto, written) in waiting {
            // Who has gone away needs no answer.
            let _ = written.send(if upto == 0 { is_ok } else { upto <= recorded });
        }
    }
}

fn reopen(writer: &mut Writer) {
    match writer.log.reopen() {
        Ok(()) => info!("SIGHUP: the audit log is opened again"),
        Err(error) => {
            let error = &error as &dyn std::error::Error;
            warn!(error, "SIGHUP: the former audit log is written on");
        }
    }
}

async fn next(hangups: &mut Option<Signal>) {
    match hangups {
        Some(hangups) => drop(hangups.recv().await),
        None => std::future::pending().await,
    }
}
