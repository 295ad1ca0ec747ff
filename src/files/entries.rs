//! What there is by name, for clients that see folders and links too.

use super::{ConversationFiles, FilesError};
use crate::conversation::Conversation;
use crate::workspace::path::RelativePath;
use crate::workspace::{Entry, Workspace};

impl ConversationFiles {
    /// What has a name in a conversation.
    ///
    /// # Errors
    /// Nothing has it, or trouble with the storage.
    pub async fn look(
        &self,
        conversation: &Conversation,
        path: &RelativePath,
    ) -> Result<Entry, FilesError> {
        let workspace = self.there(conversation, path).await?;
        let entry = workspace.look(path).await?;
        entry.ok_or_else(|| not_found(path))
    }

    /// What is in a folder, up to so many levels deep. `None` stands for the whole conversation, in which there is
    /// nothing if it was never used.
    ///
    /// # Errors
    /// There is no such folder, it has too much in it, or trouble with the storage.
    pub async fn list_folder(
        &self,
        conversation: &Conversation,
        folder: Option<&RelativePath>,
        levels: usize,
    ) -> Result<Vec<Entry>, FilesError> {
        let Some(path) = folder else {
            let workspace = self.workspaces.find(conversation.key()).await?;
            return match workspace {
                None => Ok(Vec::new()),
                Some(workspace) => {
                    Ok((workspace.list_folder(None, levels).await?).unwrap_or_default())
                }
            };
        };
        let workspace = self.there(conversation, path).await?;
        let entries = workspace.list_folder(folder, levels).await?;
        entries.ok_or_else(|| not_found(path))
    }

    /// Makes a folder and those that it is in. False if it is there already.
    ///
    /// # Errors
    /// Something else has its name, there is no room, or trouble with the storage.
    pub async fn make_folder(
        &self,
        conversation: &Conversation,
        path: &RelativePath,
    ) -> Result<bool, FilesError> {
        let workspace = self.workspaces.create(conversation.key()).await?;
        Ok(workspace.make_folder(path).await?)
    }

    /// Deletes a folder with all that is in it.
    ///
    /// # Errors
    /// There is none, or trouble with the storage.
    pub async fn remove_folder(
        &self,
        conversation: &Conversation,
        path: &RelativePath,
    ) -> Result<(), FilesError> {
        let workspace = self.there(conversation, path).await?;
        let removed = workspace.remove_folder(path).await?;
        removed.then_some(()).ok_or_else(|| not_found(path))
    }

    /// Gives a folder another name, which nothing has yet.
    ///
    /// # Errors
    /// There is no such folder, the name is taken or below it, or trouble with the storage.
    pub async fn rename_folder(
        &self,
        conversation: &Conversation,
        path: &RelativePath,
        new: &RelativePath,
    ) -> Result<(), FilesError> {
        let below = new.as_str().strip_prefix(path.as_str());
        if below.is_some_and(|below| below.starts_with('/')) {
            return Err(FilesError::IntoItself);
        }
        let workspace = self.there(conversation, path).await?;
        let renamed = workspace.rename_folder(path, new).await?;
        renamed.then_some(()).ok_or_else(|| not_found(path))
    }

    /// The workspace in which something is to be.
    async fn there(
        &self,
        conversation: &Conversation,
        path: &RelativePath,
    ) -> Result<Workspace, FilesError> {
        let workspace = self.workspaces.find(conversation.key()).await?;
        workspace.ok_or_else(|| not_found(path))
    }
}

fn not_found(path: &RelativePath) -> FilesError {
    FilesError::NotFound(path.as_str().chars().take(255).collect())
}
