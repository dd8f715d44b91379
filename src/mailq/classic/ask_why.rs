//! `--why`: asks over the control socket why something waits.

use crate::connect::dial::dial_control_socket;
use crate::connect::session::Request;
use crate::failure::Failure;
use crate::installation::Installation;
use crate::screen::Screen;

/// Prints why something waits.
pub(super) fn print(
    subject: &str,
    installation: &Installation,
    screen: &mut Screen<'_>,
) -> Result<(), Failure> {
    let request = Request::without_permission(format!("SHOW WHY {subject}"));
    // A wrong subject is an error of the command line, even without a scheduler.
    request.check()?;
    dial_control_socket(installation)?.ask_for_text(request)?.print(screen)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connect::lines::{LIMITS, Lines};
    use crate::connect::server::Server;
    use crate::connect::session::Session;
    use std::path::PathBuf;

    fn answer(text: &str) -> Result<String, i32> {
        let server = Server::Unix(PathBuf::from("/control"));
        let mut shown = Vec::new();
        let mut screen = Screen::new(&mut shown);
        let lines = Lines::recorded(text.as_bytes(), LIMITS);
        let printed = Session::on_control_socket(lines, &server).and_then(|mut session| {
            session.ask_for_text(Request::without_permission("x"))?.print(&mut screen)
        });
        printed.map_err(|failure| failure.status())?;
        drop(screen);
        Ok(String::from_utf8(shown).expect("text"))
    }

    #[test]
    fn answer_is_printed_without_stuffed_dots() {
        let text = "version zsched 1.0\n+OK until LF.LF\na waits\n..b\n.\n";
        assert_eq!(answer(text).as_deref(), Ok("a waits\n.b\n"));
    }

    #[test]
    fn answer_of_broken_dialogue_fails() {
        for (text, status) in [
            ("", 76),
            ("version zmailer 1.0\nVertices:\n", 76),
            ("version zsched 1.0\n", 76),
            ("version zsched 1.0\n-nothing is queued for x\n", 69),
            ("version zsched 1.0\n+OK until LF.LF\na waits\n", 76),
        ] {
            assert_eq!(answer(text), Err(status), "{text:?}");
        }
    }
}
