//! The flags of a mailer, as in the second field of `sm.conf`.

/// Flags of sendmail's mailers that change nothing here.
///
/// They are about what the router does, about SMTP, or about features of sendmail alone.
const WITHOUT_EFFECT: &str = "-035689:|/%@aAcCdDFghiIjklLMopqstuvwxz";

/// How a message is written for a program, and what the program gets as arguments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags {
    /// `f` or `r`: the option with the sender that precedes all arguments.
    pub sender_option: Option<char>,
    /// `m`: one call of the program may have several recipients.
    pub many_recipients: bool,
    /// `S`: the program runs with the rights of this agent.
    pub keeps_user: bool,
    /// `n`: there is no `From_` line.
    pub no_from_line: bool,
    /// `U`: the `From_` line ends with `remote from` and the name of this host.
    pub remote_from: bool,
    /// `P`: a `Return-Path` is added.
    pub return_path: bool,
    /// `e`: headers with the envelope are added.
    pub envelope_headers: bool,
    /// `O`: the original recipients are added as headers.
    pub original_recipient: bool,
    /// `b`, `B`: the message is a batch of SMTP commands.
    pub batch: Option<Batch>,
    /// `H`: the batch begins with HELO or EHLO.
    pub greeting: bool,
    /// `E`: `>` is put before lines that begin with `From `.
    pub escape_from: bool,
    /// `X`: a dot at the beginning of a line is doubled.
    pub double_dots: bool,
    /// `R`: lines end with CR LF.
    pub crlf: bool,
    /// `7`: the eighth bit of each byte is cleared.
    pub seven_bit: bool,
}

/// The kind of a batch of SMTP commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Batch {
    /// Without parameters of extensions.
    Plain,
    /// With SIZE, and with BODY if the agent was started with `-8`.
    Extended,
    /// With the DSN parameters (RFC 3461) as well.
    WithDsn,
}

impl Flags {
    /// Parses flags. The second value are the offsets of those that are unknown.
    pub fn parse(text: &str) -> (Flags, Vec<usize>) {
        let (mut flags, mut unknown) = (Flags::default(), Vec::new());
        for (at, flag) in text.char_indices() {
            if !flags.add(flag) && !WITHOUT_EFFECT.contains(flag) {
                unknown.push(at);
            }
        }
        (flags, unknown)
    }

    /// Adds a flag. Returns `false` if it changes nothing.
    fn add(&mut self, flag: char) -> bool {
        match flag {
            'f' | 'r' => {
                self.sender_option = self.sender_option.filter(|o| *o < flag).or(Some(flag))
            }
            'm' => self.many_recipients = true,
            'S' => self.keeps_user = true,
            'n' => self.no_from_line = true,
            'U' => self.remote_from = true,
            'P' => self.return_path = true,
            'e' => self.envelope_headers = true,
            'O' => self.original_recipient = true,
            'b' => {
                self.double_dots = true;
                self.batch = self.batch.or(Some(Batch::Plain));
            }
            'B' => {
                self.double_dots = true;
                self.batch = Some(match self.batch {
                    Some(Batch::Extended | Batch::WithDsn) => Batch::WithDsn,
                    _ => Batch::Extended,
                });
            }
            'H' => self.greeting = true,
            'E' => self.escape_from = true,
            'X' => self.double_dots = true,
            'R' => self.crlf = true,
            '7' => self.seven_bit = true,
            _ => return false,
        }
        true
    }

    /// The end of a line of the message.
    pub fn line_end(&self) -> &'static [u8] {
        if self.crlf { b"\r\n" } else { b"\n" }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_of_sample_file_are_known() {
        for text in ["U", "m", "-", "snmSX", "mS", "Pn", "sSPfn", "rs", "mn", "lsDFMAw5:/|@qSPfhn9"]
        {
            assert_eq!(Flags::parse(text).1, [0; 0], "{text}");
        }
        assert_eq!(Flags::parse("mZn€1").1, [1, 3, 6]);
    }

    #[test]
    fn batch_grows_with_second_letter() {
        let batch = |text| Flags::parse(text).0.batch;
        assert_eq!((batch("X"), batch("b")), (None, Some(Batch::Plain)));
        assert_eq!((batch("bB"), batch("Bb")), (Some(Batch::Extended), Some(Batch::Extended)));
        assert_eq!((batch("BB"), batch("BBb")), (Some(Batch::WithDsn), Some(Batch::WithDsn)));
    }

    #[test]
    fn option_f_wins_over_r() {
        let option = |text| Flags::parse(text).0.sender_option;
        assert_eq!((option("rf"), option("fr"), option("r")), (Some('f'), Some('f'), Some('r')));
    }
}
