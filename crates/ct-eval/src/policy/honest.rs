//! A model works on the task as it is given.

use super::Scene;
use crate::model::{Assistant, ModelError};

pub(crate) struct Honest;

impl Honest {
    pub(super) async fn turn(&mut self, scene: &mut Scene<'_>) -> Result<Assistant, ModelError> {
        let (visible, tools) = (scene.visible, scene.tools);
        let mut turn = scene.ask("hidden_untrusted", visible, tools).await?.message;
        // What the model said is one event, what entered the conversation another.
        turn.id = crate::log::new_id();
        Ok(turn)
    }
}
