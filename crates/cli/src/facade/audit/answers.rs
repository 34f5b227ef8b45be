//! The parts of a page that answer what a person asks: would outputs have been others, which come too often, and where
//! did the mask decide and not the model.

use std::fmt::Write;

use super::report::{Page, TracedStep, colour, escape, number, put, section, shorten};

/// A sentence for each sampler: the share of outputs that would have been others, and the price of one.
pub(super) fn answers(out: &mut String, page: &Page) {
    for line in &page.lines {
        let Some((frequent, _)) = line.most_frequent.first() else { continue };
        let Some(tv) = line.tv_text else {
            if let Some(tv) = line.tv_by_weights {
                put!(
                    out,
                    "<p class=\"answer\">Of 100 sequences of tokens of <b>{}</b>, <b>{}</b> would have been others without \
                     it, by their weights; no text is frequent enough to be compared. One output takes {} positions of \
                     the model.</p>\n",
                    escape(&line.label),
                    number_of(100.0 * tv),
                    number(line.lm_calls_per_sample)
                );
            }
            continue;
        };
        let others = 100.0 * tv;
        let verdict = match line.most_probable.first() {
            Some((probable, _)) if probable == frequent => "the most probable one stays the same".to_owned(),
            Some((probable, _)) => format!(
                "the most probable one is <code>{}</code>, and becomes <code>{}</code>",
                escape(&shorten(probable, 60)),
                escape(&shorten(frequent, 60))
            ),
            None => continue,
        };
        // Half of the noise of the divergence is about the square of the total variation's (Pinsker).
        let noise = 100.0 * (line.kl_text_noise / 2.0).sqrt();
        let about = if others <= 1.5 * noise { ", which is within the noise of so few" } else { "" };
        put!(
            out,
            "<p class=\"answer\">Of 100 outputs of <b>{}</b>, <b>{}</b> would have been others without it{about}; \
             {verdict}. One output takes {} positions of the model.</p>\n",
            escape(&line.label),
            number_of(others),
            number(line.lm_calls_per_sample)
        );
    }
    if let Some(mass) = page.mass {
        let estimated = if page.is_exact { "" } else { "about " };
        put!(
            out,
            "<p>The model by itself satisfies the constraint with probability {estimated}{}.</p>\n",
            number(mass)
        );
    }
    match page.is_exact {
        true => {
            put!(
                out,
                "<p class=\"soft\">The target is the model\u{2019}s own distribution, given the constraint: {} outputs, \
                 enumerated.</p>\n",
                page.outputs
            );
        }
        false => {
            put!(
                out,
                "<p class=\"soft\">The target is the model\u{2019}s own distribution, given the constraint, as far as it \
                 was observed: its probabilities of the {} different outputs that any sampler gave. Texts that are too \
                 rare for so few outputs are compared together, so the distances are lower bounds.</p>\n",
                page.outputs
            );
        }
    }
}

/// A number of outputs of a hundred.
fn number_of(others: f64) -> String {
    if others >= 10.0 { format!("{others:.0}") } else { format!("{others:.1}") }
}

/// A group of bars for each text: the target, and each sampler.
pub(super) fn outcomes(out: &mut String, page: &Page) {
    if page.outcomes.is_empty() {
        return;
    }
    section(
        out,
        "Outputs",
        "How often each comes, of 100: from the model, given the constraint, and from each sampler.",
    );
    let most = page
        .outcomes
        .iter()
        .flat_map(|outcome| outcome.shares.iter().copied().chain([outcome.target]))
        .fold(1e-9, f64::max);
    out.push_str("<p><span class=\"key\" style=\"background:var(--ink)\"></span>the model &nbsp; ");
    for (index, line) in page.lines.iter().enumerate() {
        put!(
            out,
            "<span class=\"key\" style=\"background:{}\"></span>{} &nbsp; ",
            colour(index),
            escape(&line.label)
        );
    }
    out.push_str("</p>\n<div class=\"outcomes\">\n");
    for outcome in &page.outcomes {
        let text = match outcome.text.as_deref() {
            None => "<i>all others</i>".to_owned(),
            Some("") => "<i>nothing</i>".to_owned(),
            Some(text) => escape(&shorten(text, 80)),
        };
        put!(out, "<div class=\"outcome\"><div class=\"text\">{text}</div><div>");
        let bars = outcome.shares.iter().enumerate().map(|(index, share)| (colour(index), *share));
        for (colour, share) in std::iter::once(("var(--ink)", outcome.target)).chain(bars) {
            put!(
                out,
                "<div class=\"share\"><i style=\"width:{:.2}%;background:{colour}\"></i>{}</div>",
                85.0 * share / most,
                number_of(100.0 * share)
            );
        }
        out.push_str("</div></div>\n");
    }
    out.push_str("</div>\n");
}

pub(super) fn traces(out: &mut String, page: &Page) {
    let text = format!(
        "Where <b>{}</b> is furthest from the target. At each token the mask keeps a part of the model\u{2019}s distribution \
         (blue) and throws the rest away (red). Masked sampling divides by the part that is kept: the \
         inverse of the product along an output is the factor by which it becomes too likely, relative to the others.",
        escape(&page.skewed)
    );
    section(out, "Where the mass is lost, token by token", &text);
    for traced in &page.traced {
        let ratio = if traced.target > 0.0 { traced.drawn / traced.target } else { f64::INFINITY };
        let verdict = if traced.drawn == 0.0 {
            "never drawn".to_owned()
        } else if ratio >= 1.0 {
            format!("{} times as often as it should be", number(ratio))
        } else {
            format!("{} of its share", number(ratio))
        };
        let kept: f64 = traced.steps.iter().map(|step| step.log_mass).sum();
        put!(
            out,
            "<div class=\"output\"><div><code>{}</code> probability {}, frequency {}: {verdict}; the masks kept {} of the \
             model\u{2019}s mass along it</div>\n<div class=\"steps\">",
            escape(&shorten(&traced.text, 120)),
            number(traced.target),
            number(traced.drawn),
            number(kept.exp())
        );
        const SHOWN: usize = 60;
        for TracedStep { text, p, log_mass, instead } in traced.steps.iter().take(SHOWN) {
            let share = log_mass.exp() * 100.0;
            let rather = match instead {
                Some((text, p)) if share < 90.0 => {
                    format!(
                        "; the model would rather write {} ({:.1} %)",
                        escape(&shorten(text, 40)),
                        100.0 * p
                    )
                }
                _ => String::new(),
            };
            let (class, name) = match text {
                Some(token) => ("step", escape(&token.replace(' ', "\u{b7}"))),
                None => ("step end", "end".to_owned()),
            };
            put!(
                out,
                "<div class=\"{class}\" title=\"probability {}; the mask keeps {share:.3} %{rather}\"><b>{name}</b>\
                 <div class=\"bar\"><i style=\"width:{share:.2}%\"></i></div>keeps {}\u{2009}%</div>",
                number(*p),
                number(share)
            );
        }
        if traced.steps.len() > SHOWN {
            put!(out, "<div class=\"step end\"><b>\u{2026}</b>{} more</div>", traced.steps.len() - SHOWN);
        }
        out.push_str("</div></div>\n");
    }
}
