# The header as doxygen is to read it. In this library's headers a plain comment right before a declaration, or behind a
# member on its line, is its documentation; the first comment of a file says what the file is for.
# Lines keep their numbers, so that what doxygen says of them is true of the file.
# (awk, because it runs for each header, and starts in a fortieth of the time that python takes.)

# A page is no header: it is given the anchors that links to its headings name, as doxygen 1.9.4 makes none of its own.
FILENAME ~ /\.md$/ {
  page = FILENAME
  gsub(/^.*\/|\.md$/, "", page)
  if (/^```/) is_code = !is_code
  print is_code ? $0 : with_anchors($0, page)
  next
}

# doxygen 1.9.4 looks for the scope of a specialization among what it has read, and fmt it has not.
{ sub(/struct fmt::formatter</, "struct formatter<") }

/^ *\/\// { comment[++comments] = $0; next }

{
  if (comments > 0 && NR == comments + 1) {
    # Of the file: said where `#pragma once` was, so that no line is added.
    document("")
    print "/// @file"
  } else {
    # Before what is no declaration, a comment speaks of all that follows.
    if (comments > 0 && $0 !~ /^ *((public|private|protected):|namespace .*|(}|#(include|pragma|else|endif)).*)?$/) {
      document(substr(comment[1], 1, index(comment[1], "/") - 1))
    } else {
      for (i = 1; i <= comments; ++i) print comment[i]
    }
    print with_member_comment($0)
  }
  comments = 0
}

END { for (i = 1; i <= comments; ++i) print comment[i] }

# Doxygen keeps the anchors of all pages together, so each begins with the name of its page.
function with_anchors(line, page,    slug, times) {
  if (line ~ /^#+ /) {
    slug = tolower(line)
    gsub(/^#+ |[^a-z0-9 _-]/, "", slug)
    gsub(/ /, "-", slug)
    slug = page "-" slug
    times = headings[slug]++
    return line " {#" slug (times > 0 ? "-" times : "") "}"
  }
  gsub(/\]\(#/, "](#" page "-", line)
  while (match(line, /\]\([a-z\/]*\.md#/)) {
    page = substr(line, RSTART + 2, RLENGTH - 6)
    sub(/^.*\//, "", page)
    line = substr(line, 1, RSTART + 1) "#" page "-" substr(line, RSTART + RLENGTH)
  }
  return line
}

# The comment's lines as doxygen's: sections get their titles, and what is set out in columns is kept as it is.
function document(indent,    i, text, in_list, in_table, was_in_table, lines) {
  for (i = 1; i <= comments; ++i) {
    text = comment[i]
    sub(/^ *\/\/ ?/, "", text)
    was_in_table = in_table
    in_table = text ~ /^  / && !in_list
    if (in_table && !was_in_table) lines[i - 1] = lines[i - 1] " @verbatim"
    if (was_in_table && !in_table) lines[i - 1] = lines[i - 1] " @endverbatim"
    in_list = text ~ /^- / || (in_list && text ~ /^  /)
    lines[i] = in_table ? text : in_list ? substr(text, 1, 2) plain(substr(text, 3)) : with_title(text)
  }
  if (in_table) lines[comments] = lines[comments] " @endverbatim"
  if (0 in lines) lines[1] = lines[0] " " lines[1]
  for (i = 1; i <= comments; ++i) print indent "/// " lines[i]
}

function with_title(text,    end) {
  if (text ~ /^(Effects|Shapes|Units|Complexity|Throws|Sources?|Preconditions?|Laws?|Models|Expects): /) {
    end = index(text, ":")
    return "@titled{" substr(text, 1, end - 1) "} " plain(substr(text, end + 2))
  }
  return plain(text)
}

# Nothing in it is a command, markup or a link, but code between backquotes.
function plain(text,    parts, count, i, all) {
  count = split(text, parts, "`")
  for (i = 1; i <= count; ++i) {
    if (i % 2 == 1) gsub(/[\\@<>#%&|*_~]/, "\\\\&", parts[i])
    all = all (i > 1 ? "`" : "") parts[i]
  }
  return all
}

function with_member_comment(line,    place) {
  # doxygen 1.9.4 takes a quote in a raw string for the string's end, and all that follows for a string.
  gsub(/R"\([^)]*\)"/, "\"\"", line)
  # Nor can it specialize a template of a namespace that it has not seen; the Doxyfile leaves these out.
  sub(/^struct boost::/, "struct boost_", line)
  place = match(line, /(;|,|[A-Za-z0-9_}])  \/\/ /)
  if (place > 0 && line !~ /^ *[}#]/) {
    return substr(line, 1, place) "  ///< " plain(substr(line, place + RLENGTH))
  }
  return line
}
