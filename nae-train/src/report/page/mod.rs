//! `report.html`: a run on one page, without external resources. It shows curves, histograms, ROC, reconstructions and
//! chains in addition to the numbers in `report.md`.
//!
//! [`curves`] draws the measurements in `metrics.jsonl` and the ROC, [`gallery`] the images. This module assembles the
//! page from content that the caller provides.

pub mod curves;
pub mod gallery;

use std::fmt::Write as _;

use crate::eval::table::Table;
use gallery::Gallery;

/// The content of the page.
pub struct Page<'a> {
    /// The name of the run.
    pub title: &'a str,
    /// Facts such as ending, threshold and network, one sentence each.
    pub facts: &'a [String],
    /// Warnings that affect how far the model can be trusted.
    pub warnings: &'a [String],
    /// The settings that were chosen for a user's own data.
    pub choices: &'a [String],
    /// The figures.
    pub table: &'a Table,
    /// Pictures with their captions: (caption, SVG).
    pub pictures: &'a [(String, String)],
    /// Galleries of images.
    pub galleries: &'a [Gallery],
    /// The text of `config.toml`.
    pub config: &'a str,
}

const STYLE: &str = "\
body{font:15px/1.5 system-ui,sans-serif;color:#1a1a1a;background:#fff;max-width:72rem;margin:0 auto;padding:1rem}\
h1{font-size:1.5rem}h2{font-size:1.15rem;margin-top:2rem;border-bottom:1px solid #ddd}\
table{border-collapse:collapse;font-size:.92rem}th,td{padding:.2rem .7rem;border-bottom:1px solid #eee;text-align:right}\
th:first-child,td:first-child,td:nth-child(2){text-align:left}.scroll{overflow-x:auto}\
.gallery th,.gallery td{text-align:left}\
.warning{background:#fff3cd;border-left:4px solid #d39e00;padding:.4rem .8rem;margin:.4rem 0}\
figure{margin:1rem 0}figcaption{color:#555;font-size:.9rem}svg{max-width:100%;height:auto}\
img{image-rendering:pixelated;max-width:100%}pre{background:#f6f6f6;padding:.8rem;overflow-x:auto;font-size:.85rem}";

/// The page as HTML.
pub fn html(page: &Page<'_>) -> String {
    let title = escape(page.title);
    let mut out = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{title}</title>\n\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\"><style>{STYLE}</style></head>\n\
         <body><h1>{title}</h1>\n"
    );
    for warning in page.warnings {
        push(&mut out, format_args!("<p class=\"warning\">{}</p>\n", escape(warning)));
    }
    list(&mut out, page.facts);
    out += "<h2>Outliers</h2>\n";
    out += &table(page.table);
    for (caption, svg) in page.pictures {
        push(&mut out, format_args!("<figure>{svg}<figcaption>{}</figcaption></figure>\n", escape(caption)));
    }
    for Gallery { title, caption, columns, rows } in page.galleries {
        push(&mut out, format_args!("<h2>{}</h2>\n<p>{}</p>\n", escape(title), escape(caption)));
        out += "<div class=\"scroll gallery\"><table><tr>";
        for column in columns {
            push(&mut out, format_args!("<th>{}</th>", escape(column)));
        }
        out += "</tr>\n";
        for (name, pngs) in rows {
            push(&mut out, format_args!("<tr><td>{}</td>", escape(name)));
            for png in pngs {
                push(&mut out, format_args!("<td><img alt=\"\" src=\"data:image/png;base64,{png}\"></td>"));
            }
            out += "</tr>\n";
        }
        out += "</table></div>\n";
    }
    if !page.choices.is_empty() {
        out += "<h2>Chosen</h2>\n";
        list(&mut out, page.choices);
    }
    push(
        &mut out,
        format_args!(
            "<details><summary>config.toml</summary><pre>{}</pre></details>\n</body></html>\n",
            escape(page.config)
        ),
    );
    out
}

fn list(out: &mut String, sentences: &[String]) {
    *out += "<ul>\n";
    for sentence in sentences {
        push(out, format_args!("<li>{}</li>\n", escape(sentence)));
    }
    *out += "</ul>\n";
}

fn table(table: &Table) -> String {
    let intervals = match &table.no_intervals {
        None => format!(", with 95% confidence intervals of the {} drawn", table.samples),
        Some(reason) => format!(". {}", escape(reason)),
    };
    let mut out = format!(
        "<p>Against {} normal test {}{intervals}. AUPR: outliers are the positives. \
         FPR@95: normal ones above a threshold that catches 95% of the outliers.</p>\n<div class=\"scroll\"><table>\
         <tr><th>outliers</th><th>model</th><th>count</th><th>AUROC</th><th>AUPR</th><th>FPR@95</th></tr>\n",
        table.normal_count, table.samples
    );
    for row in &table.rows {
        let mark = if row.selection { " *" } else { "" };
        for (key, title) in &table.columns {
            push(
                &mut out,
                format_args!(
                    "<tr><td>{}{mark}</td><td>{}</td><td>{}</td>",
                    escape(&row.outliers),
                    escape(title),
                    row.count
                ),
            );
            match row.figures.get(*key) {
                Some(f) => {
                    push(&mut out, format_args!("<td>{}</td><td>{}</td><td>{}</td></tr>\n", f.auroc, f.aupr, f.fpr95))
                }
                None => out += "<td>–</td><td>–</td><td>–</td></tr>\n",
            }
        }
    }
    push(&mut out, format_args!("</table></div>\n"));
    if let Some(footnote) = table.footnote() {
        push(&mut out, format_args!("<p>{footnote}</p>\n"));
    }
    out
}

fn push(out: &mut String, text: std::fmt::Arguments<'_>) {
    // Writing to a string cannot fail.
    let _ = out.write_fmt(text);
}

/// Escapes text for HTML, since names of files and folders may contain any characters.
fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn the_page_is_whole_and_harmless() {
        let table = Table {
            columns: vec![("nae", "NAE")],
            samples: "rows",
            no_intervals: None,
            normal_count: 3,
            normal_energy: BTreeMap::new(),
            rows: Vec::new(),
        };
        let name = "<script>alert(1)</script>".to_owned();
        let gallery = Gallery {
            title: name.clone(),
            caption: String::new(),
            columns: vec![name.clone()],
            rows: vec![(name.clone(), vec!["AA==".to_owned()])],
        };
        let page = Page {
            title: &name,
            facts: std::slice::from_ref(&name),
            warnings: std::slice::from_ref(&name),
            choices: std::slice::from_ref(&name),
            table: &table,
            pictures: &[(name.clone(), "<svg></svg>".to_owned())],
            galleries: &[gallery],
            config: &name,
        };
        let html = html(&page);
        assert!(!html.contains("<script") && html.contains("&lt;script&gt;"), "{html}");
        assert!(html.contains("3 normal test rows, with 95% confidence intervals of the rows drawn"), "{html}");
        assert!(!html.contains("http://") && !html.contains("https://"), "nothing is fetched");
        for tag in ["table", "figure", "details", "ul", "body", "html"] {
            let count = |text: &str| html.matches(text).count();
            assert_eq!(count(&format!("<{tag}>")) + count(&format!("<{tag} ")), count(&format!("</{tag}>")), "{tag}");
        }
    }
}
