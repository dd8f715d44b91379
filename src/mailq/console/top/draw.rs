//! Drawing of `mailq top`.

use super::state::TopState;
use crate::console::arguments::Sort;
use crate::console::summary::{hold_words, process_words, thread_columns};
use crate::format::{count, cut, grouped, last_line, one_line, rate, span};
use crate::screen::Style as OutputStyle;
use crate::table::{Cell, table};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Clear, List, ListState, Paragraph, Sparkline, Wrap};
use zsched_mailq_protocol::schema::AgentStatus;

/// Maximum number of agents shown.
const MAX_SHOWN_AGENTS: usize = 5;
/// Summary of the keys, in the bottom line.
const KEYS: &str =
    "q leave  ↑↓ move  e explain  h hold  u release  r retry  s sort  p pause  ? help";
/// Explanation of the keys.
const HELP: [&str; 10] = [
    "q, Esc      leave",
    "↑ ↓, j k    choose a destination; Page Up and Down, Home, End",
    "e, Enter    explain why it waits",
    "h           put it on hold",
    "u           release it",
    "r           retry it now",
    "s           sort by messages, by age, by what is undelivered",
    "p           pause or resume",
    "blank       refresh now",
    "any key     closes this box",
];

/// Draws the screen.
pub(super) fn draw(frame: &mut Frame<'_>, state: &mut TopState, has_colour: bool) {
    let palette = Palette { has_colour };
    let agents = state.overview.agents.len().min(MAX_SHOWN_AGENTS) as u16;
    let agents_height = if agents > 0 && frame.area().height >= 20 { agents + 1 } else { 0 };
    let [head, curve, threads, agents, last, keys] = Layout::vertical([
        Constraint::Length(2),
        Constraint::Length(2),
        Constraint::Min(3),
        Constraint::Length(agents_height),
        Constraint::Length(2),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    draw_head(frame, head, state, palette);
    draw_curve(frame, curve, state, palette);
    draw_threads(frame, threads, state, palette);
    draw_agents(frame, agents, state, palette);
    draw_last(frame, last, state, palette);
    let summary_of_keys = cut(KEYS, usize::from(keys.width));
    frame.render_widget(Line::styled(summary_of_keys, palette.of(OutputStyle::Dim)), keys);
    if let Some(reason) = &state.reason {
        let lines: Vec<String> = reason.iter().map(|line| one_line(line)).collect();
        draw_box(frame, "Why it waits", &lines);
    } else if state.has_help {
        draw_box(frame, "Keys", &HELP.map(str::to_string));
    }
}

/// Styles of the screen, with or without colours.
#[derive(Clone, Copy)]
struct Palette {
    has_colour: bool,
}

impl Palette {
    fn of(self, style: OutputStyle) -> Style {
        let plain = Style::default();
        match style {
            OutputStyle::Plain => plain,
            OutputStyle::Title => plain.add_modifier(Modifier::BOLD),
            OutputStyle::Dim => plain.add_modifier(Modifier::DIM),
            _ if !self.has_colour => plain,
            OutputStyle::Good => plain.fg(Color::Green),
            OutputStyle::Warning => plain.fg(Color::Yellow),
            OutputStyle::Error => plain.fg(Color::Red),
        }
    }
}

fn draw_head(frame: &mut Frame<'_>, area: Rect, state: &TopState, palette: Palette) {
    let summary = &state.overview.summary;
    if !state.has_snapshot {
        frame.render_widget(Line::raw("Connecting to the scheduler ..."), area);
        return;
    }
    let mut first = vec![
        Span::styled(count(summary.messages, "message"), palette.of(OutputStyle::Title)),
        Span::raw(format!(
            " for {}, {}",
            count(summary.recipients, "recipient"),
            count(summary.threads, "destination")
        )),
    ];
    if let Some(age) = summary.oldest.filter(|_| summary.messages > 0) {
        first.push(Span::raw(format!(", oldest {}", span(age))));
    }
    let mut second = vec![Span::raw(format!(
        "{}, {} idle; up {}",
        count(summary.agents, "agent"),
        grouped(summary.idle),
        span((summary.time - summary.started).max(0.0))
    ))];
    for words in hold_words(summary) {
        second.push(Span::styled(format!("; {words}"), palette.of(OutputStyle::Warning)));
    }
    for words in process_words(summary).chain(state.is_paused.then_some("paused")) {
        second.push(Span::styled(format!("; {words}"), palette.of(OutputStyle::Error)));
    }
    if let Some(warning) = summary.warnings.first() {
        let more = match summary.warnings.len() {
            1 => String::new(),
            number => format!(" (1 of {number})"),
        };
        let warning = format!("; warning{more}: {}", one_line(warning));
        second.push(Span::styled(warning, palette.of(OutputStyle::Error)));
    }
    let columns = usize::from(area.width);
    frame.render_widget(Paragraph::new(vec![fit(first, columns), fit(second, columns)]), area);
}

/// A line of these parts. What does not fit is cut, and the mark is in its place.
fn fit(parts: Vec<Span<'_>>, columns: usize) -> Line<'_> {
    let (mut room, mut shown) = (columns, Vec::new());
    let last = parts.len().saturating_sub(1);
    for (place, part) in parts.into_iter().enumerate() {
        if part.width() < room + usize::from(place == last) {
            room -= part.width();
            shown.push(part);
            continue;
        }
        // A text that is longer than the room ends in the mark.
        let text = cut(&format!("{} ", part.content), room);
        shown.push(Span::styled(text, part.style));
        break;
    }
    Line::from(shown)
}

fn draw_curve(frame: &mut Frame<'_>, area: Rect, state: &TopState, palette: Palette) {
    let last = |rates: &std::collections::VecDeque<f64>| rate(rates.back().copied().unwrap_or(0.0));
    let label = format!("in {}  out {}  ", last(&state.rates_in), last(&state.rates_out));
    let [words, curve] =
        Layout::horizontal([Constraint::Length(28), Constraint::Min(0)]).areas(area);
    frame.render_widget(Line::styled(label, palette.of(OutputStyle::Title)), words);
    let room = usize::from(curve.width);
    let skipped = state.rates_out.len().saturating_sub(room);
    // In tenths, so that small rates are visible.
    let rates: Vec<u64> =
        state.rates_out.iter().skip(skipped).map(|rate| (rate * 10.0) as u64).collect();
    frame.render_widget(
        Sparkline::default().data(&rates).style(palette.of(OutputStyle::Good)),
        curve,
    );
}

fn draw_threads(frame: &mut Frame<'_>, area: Rect, state: &mut TopState, palette: Palette) {
    let threads = state.threads();
    let now = state.overview.summary.time;
    let mut columns = thread_columns("DESTINATION", now, threads.iter().copied(), true);
    for column in &mut columns {
        column.title = match (column.title, state.sort) {
            ("MSGS", Sort::Backlog) => "MSGS▼",
            ("OLDEST", Sort::Oldest) => "OLDEST▼",
            ("DEFERRED", Sort::Undelivered) => "DEFERRED▼",
            (other, _) => other,
        };
    }
    let table = table(&columns, threads.iter().copied());
    let mut lines = table.lines(Some(usize::from(area.width))).map(|parts| {
        let part = |(text, style): Cell| Span::styled(text, palette.of(style));
        Line::from_iter(parts.into_iter().map(part))
    });
    let titles = lines.next().unwrap_or_default();
    let rows: Vec<Line<'_>> = lines.collect();
    let [head, body] = Layout::vertical([Constraint::Length(1), Constraint::Min(0)]).areas(area);
    frame.render_widget(titles, head);
    let mut selection = ListState::default().with_selected(Some(state.selected_index(&threads)));
    let list = List::new(rows).highlight_style(Style::default().add_modifier(Modifier::REVERSED));
    frame.render_stateful_widget(list, body, &mut selection);
}

fn draw_agents(frame: &mut Frame<'_>, area: Rect, state: &TopState, palette: Palette) {
    let mut agents: Vec<_> = state.overview.agents.iter().collect();
    // Working agents first, and of them those whose last job is oldest.
    agents.sort_by(|a, b| {
        let silent = |agent: &&AgentStatus| agent.fed.unwrap_or(0.0);
        (a.thread.is_none()).cmp(&b.thread.is_none()).then(silent(b).total_cmp(&silent(a)))
    });
    let mut lines = vec![Line::styled("AGENTS", palette.of(OutputStyle::Title))];
    for agent in agents.into_iter().take(MAX_SHOWN_AGENTS) {
        let place = agent.thread.as_deref().or(agent.ring.as_deref()).unwrap_or("-");
        let fed = match agent.fed {
            Some(fed) => format!("fed {} ago", span(fed)),
            None => "without work".to_string(),
        };
        let (state, jobs) = (one_line(&agent.state), count(agent.jobs, "job"));
        let place = one_line(place);
        let line = format!("{:>8}  {state:<7} {jobs:>7}  {fed:<14}  {place}", agent.pid);
        lines.push(Line::raw(line));
    }
    frame.render_widget(Paragraph::new(lines), area);
}

/// Draws the last text of the destination, and the last message.
fn draw_last(frame: &mut Frame<'_>, area: Rect, state: &TopState, palette: Palette) {
    let threads = state.threads();
    let text = threads.get(state.selected_index(&threads)).and_then(|thread| thread.text());
    let columns = usize::from(area.width);
    let reply = match text.map(last_line).filter(|text| !text.is_empty()) {
        Some(text) => {
            Line::styled(cut(&format!("Last: {text}"), columns), palette.of(OutputStyle::Warning))
        }
        None => Line::raw(""),
    };
    let message = match &state.message {
        Some(message) => {
            let style = if message.is_bad { OutputStyle::Error } else { OutputStyle::Good };
            // The lines after the first are advice, for which there is no room.
            let first = message.text.lines().next().unwrap_or_default();
            Line::styled(cut(&one_line(first), columns), palette.of(style))
        }
        None => Line::raw(""),
    };
    frame.render_widget(Paragraph::new(vec![reply, message]), area);
}

fn draw_box(frame: &mut Frame<'_>, title: &str, lines: &[String]) {
    let area = frame.area();
    let width = area.width.saturating_sub(8).min(100);
    let inner = usize::from(width.saturating_sub(2)).max(1);
    let height: usize = lines.iter().map(|line| line.chars().count() / inner + 1).sum();
    let height = (height as u16).saturating_add(2).min(area.height);
    let place = Rect { x: (area.width - width) / 2, y: (area.height - height) / 2, width, height };
    let text: Vec<Line<'_>> = lines.iter().map(|line| Line::raw(line.as_str())).collect();
    let paragraph =
        Paragraph::new(text).wrap(Wrap { trim: false }).block(Block::bordered().title(title));
    frame.render_widget(Clear, place);
    frame.render_widget(paragraph, place);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::console::overview::Overview;
    use crate::console::top::state::StatusMessage;
    use crate::console::top::worker::WorkerReport;
    use expect_test::{Expect, expect};
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use serde::de::DeserializeOwned;

    fn recorded<T: DeserializeOwned>(name: &str) -> Vec<T> {
        let path = format!("{}/../../tests/data/mailq/json/{name}", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(path).expect("a recording");
        text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
    }

    /// The state after two snapshots, so that there is a rate.
    fn state() -> TopState {
        let mut state = TopState::default();
        for seconds in [0.0, 2.0] {
            let mut overview = Overview {
                summary: recorded("summary").remove(0),
                threads: recorded("threads"),
                rings: recorded("rings"),
                agents: recorded("agents"),
                ..Overview::default()
            };
            // It is shown in the local time zone.
            overview.threads[0].wakeup = None;
            overview.summary.time += seconds;
            overview.summary.recipients_out += seconds as u64 * 10;
            state.apply(WorkerReport::Snapshot(Box::new(overview)));
        }
        state
    }

    fn drawn(state: &mut TopState, width: u16, height: u16, expected: &Expect) {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a terminal");
        terminal.draw(|frame| draw(frame, state, true)).expect("drawn");
        let buffer = terminal.backend().buffer();
        let row = |y| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>();
        let rows: Vec<String> = (0..height).map(|y| row(y).trim_end().to_string()).collect();
        expected.assert_eq(&(rows.join("\n") + "\n"));
    }

    #[test]
    fn draw_fits_small_terminal() {
        drawn(
            &mut state(),
            80,
            24,
            &expect![[r#"
                1,203 messages for 2,404 recipients, 3 destinations, oldest 1d
                12 agents, 1 idle; up 1h14m; 1 destination on hold; warning: no command for uuc…
                in 0  out 10.0/s            █
                                            █
                DESTINATION               MSGS▼  DEFERRED  OLDEST  STATE    LAST TEXT  …
                smtp/mx.test              1,200     2,400      1d  retry    ->> 451 4.4.1 ^[[31…
                smtp/a-host-with-a-rath…      2         0     59s  at work
                hold/x                        1         1      1h  on hold  5\u{9b}2J










                AGENTS
                    4712  STUFF    2 jobs  fed 4s ago      smtp/a-host-with-a-rather-long-name.m
                    4713  IDLE     0 jobs  without work    hold/*
                Last: ->> 451 4.4.1 ^[[31mnot now, please come back later when there is more ro…

                q leave  ↑↓ move  e explain  h hold  u release  r retry  s sort  p pause  ? help
            "#]],
        );
    }

    #[test]
    fn draw_fits_wide_terminal() {
        drawn(
            &mut state(),
            140,
            20,
            &expect![[r#"
                1,203 messages for 2,404 recipients, 3 destinations, oldest 1d
                12 agents, 1 idle; up 1h14m; 1 destination on hold; warning: no command for uucp/* (scheduler.cf:30): mail for 2 destinations stays queued
                in 0  out 10.0/s            █
                                            █
                DESTINATION                       MSGS▼  RCPTS  DEFERRED  OLDEST  AGENTS  STATE    LAST TEXT
                smtp/mx.test                      1,200  2,400     2,400      1d       0  retry    ->> 451 4.4.1 ^[[31mnot now, please come back later when…
                smtp/a-host-with-a-rather-long-…      2      3         0     59s       1  at work
                hold/x                                1      1         1      1h       0  on hold  5\u{9b}2J






                AGENTS
                    4712  STUFF    2 jobs  fed 4s ago      smtp/a-host-with-a-rather-long-name.mail.example.org
                    4713  IDLE     0 jobs  without work    hold/*
                Last: ->> 451 4.4.1 ^[[31mnot now, please come back later when there is more room

                q leave  ↑↓ move  e explain  h hold  u release  r retry  s sort  p pause  ? help
            "#]],
        );
    }

    #[test]
    fn draw_shows_reason_over_destinations() {
        let mut state = state();
        let sentence = "smtp/mx.test: 1200 messages wait until 11:45:03, in 31m, to be tried again \
            (retries, scheduler.cf:12) (tried once; last: 451 \u{1b}[31mx)";
        state.apply(WorkerReport::Reason(vec![sentence.to_string()]));
        let text = "HOLD is refused: no\nmailq: advice".to_string();
        state.apply(WorkerReport::Status(StatusMessage {
            text,
            is_bad: true,
            ends_session: false,
        }));
        drawn(
            &mut state,
            60,
            16,
            &expect![[r#"
                1,203 messages for 2,404 recipients, 3 destinations, oldest…
                12 agents, 1 idle; up 1h14m; 1 destination on hold; warning…
                in 0  out 10.0/s            █
                                            █
                DESTINATION                 MSGS▼  DEFERRED  OLDEST  STATE
                smtp┌Why it waits──────────────────────────────────────┐ry
                smtp│smtp/mx.test: 1200 messages wait until 11:45:03,  │work
                hold│in 31m, to be tried again (retries,               │hold
                    │scheduler.cf:12) (tried once; last: 451 ^[[31mx)  │
                    └──────────────────────────────────────────────────┘



                Last: ->> 451 4.4.1 ^[[31mnot now, please come back later w…
                HOLD is refused: no
                q leave  ↑↓ move  e explain  h hold  u release  r retry  s …
            "#]],
        );
    }

    #[test]
    fn draw_at_any_size_does_not_panic() {
        for (width, height) in [(1, 1), (3, 2), (10, 5), (20, 40), (300, 3)] {
            for has_help in [false, true] {
                let mut state = TopState { has_help, ..state() };
                let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("one");
                terminal.draw(|frame| draw(frame, &mut state, false)).expect("drawn");
            }
        }
    }
}
