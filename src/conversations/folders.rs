//! The same for clients that see folders too: what a name stands for is deleted or renamed, whatever it is.

use super::Conversations;
use crate::audit::{Change, Event, Origin, kept};
use crate::conversation::Conversation;
use crate::files::FilesError;
use crate::workspace::WorkspaceError;
use crate::workspace::path::RelativePath;

impl Conversations {
    /// Makes a folder and those that it is in. A new conversation gets a warm sandbox. False if it is there already.
    ///
    /// # Errors
    /// Something else has its name, there is no room, or trouble with the storage.
    pub async fn make_folder(
        &self,
        origin: &Origin,
        conversation: &Conversation,
        path: &RelativePath,
    ) -> Result<bool, FilesError> {
        let _in_use = self.gate.enter_upload(conversation).await?;
        self.pool.prewarm(conversation.key()).await?;
        let change = self.audit.change(|| Event::FolderMade {
            change: Change::of(origin, conversation),
            name: kept(path.as_str()),
        });
        let change = change.await?;
        let made = self.files.make_folder(conversation, path).await;
        change.end(made.as_ref().is_ok_and(|made| *made));
        made
    }

    /// Deletes a file, or a folder with all that is in it.
    ///
    /// # Errors
    /// There is none, or trouble with the storage.
    pub async fn remove(
        &self,
        origin: &Origin,
        conversation: &Conversation,
        path: &RelativePath,
    ) -> Result<(), FilesError> {
        let _in_use = self.gate.enter_files(conversation).await;
        let change = self.audit.change(|| Event::FileDeleted {
            change: Change::of(origin, conversation),
            name: kept(path.as_str()),
        });
        let change = change.await?;
        let files = &self.files;
        let mut removed = files.delete_file(conversation, path.as_str(), None).await;
        if is_folder(&removed) {
            removed = files.remove_folder(conversation, path).await;
        }
        change.end(removed.is_ok());
        removed
    }

    /// Gives a file or a folder another name, which nothing has yet.
    ///
    /// # Errors
    /// There is none, the name is taken, or trouble with the storage.
    pub async fn rename(
        &self,
        origin: &Origin,
        conversation: &Conversation,
        path: &RelativePath,
        new: &RelativePath,
    ) -> Result<(), FilesError> {
        let _in_use = self.gate.enter_files(conversation).await;
        let change = self.audit.change(|| Event::FileRenamed {
            change: Change::of(origin, conversation),
            name: kept(path.as_str()),
            new_name: kept(new.as_str()),
        });
        let change = change.await?;
        let (files, names) = (&self.files, (path.as_str(), new.as_str()));
        let renamed = files.rename_file(conversation, names.0, names.1).await;
        let mut renamed = renamed.map(|_| ());
        if is_folder(&renamed) {
            renamed = files.rename_folder(conversation, path, new).await;
        }
        change.end(renamed.is_ok());
        renamed
    }
}

fn is_folder(done: &Result<(), FilesError>) -> bool {
    matches!(
        done,
        Err(FilesError::Workspace(WorkspaceError::IsDirectory))
    )
}
