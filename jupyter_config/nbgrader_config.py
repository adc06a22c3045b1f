"""nbgrader for this course: its folders, and defaults that are fair to learners and safer for the instructor.

Plain `nbgrader` commands and `techlabs` commands read this one file.
"""

import warnings

from sqlalchemy.exc import SAWarning

from grader.layout import Layout
from grader.rules import STUB

c = get_config()  # noqa: F821 - given by Jupyter

c.CourseDirectory.course_id = "techlabs"
Layout.find().map_onto(c)
# nbgrader's gradebook provokes this three times a submission; nothing is wrong.
warnings.filterwarnings("ignore", message="Object of type .* not in session", category=SAWarning)

# Kilobytes. A lab's own data are at most 5 MB.
c.CourseDirectory.max_file_size = 10_000
c.CourseDirectory.max_dir_size = 20_000

c.ClearSolutions.code_stub = {"python": STUB}

# A renamed notebook is better refused at submission than at grading.
c.ExchangeSubmit.strict = True

# A byte-order mark does no harm, and what is wrong with a submission is repaired first, and reported.
c.Autograde.exporter_class = "grader.intake.SubmissionExporter"
c.Autograde.sanitize_preprocessors = [
    "grader.repair.Repair",
    "nbgrader.preprocessors.ClearOutput",
    "nbgrader.preprocessors.DeduplicateIds",
    "nbgrader.preprocessors.OverwriteKernelspec",
    "nbgrader.preprocessors.OverwriteCells",
    "nbgrader.preprocessors.CheckCellMetadata",
]
c.OverwriteCells.add_missing_cells = True

# How it is run: in a box, and judged from outside it. Seconds and megabytes: a lab's whole machine time is
# under 60 s, so no honest cell takes longer.
c.Autograde.autograde_preprocessors = [
    "grader.execute.ExecuteSubmission",
    "nbgrader.preprocessors.IgnorePattern",
    "nbgrader.preprocessors.LimitOutput",
    "nbgrader.preprocessors.SaveAutoGrades",
    "nbgrader.preprocessors.AssignLatePenalties",
    "nbgrader.preprocessors.CheckCellMetadata",
]
c.Execute.timeout = 60
c.ExecuteSubmission.budget = 180
c.ExecuteSubmission.memory_mb = 4000
c.Execute.shutdown_kernel = "immediate"
# No tag skips a cell: an unrun test would earn full marks.
c.Execute.skip_cells_with_tag = ""

# nbgrader gives 0 for any text on stderr; a warning or a progress bar must cost nothing.
c.IgnorePattern.enabled = True
c.IgnorePattern.pattern = r"(?s).*"
c.LimitOutput.max_lines = 200
c.LimitOutput.max_traceback = 40

# A page of feedback opens in somebody's browser: no script or handler that a learner wrote comes along.
c.GenerateFeedback.preprocessors = [
    "nbgrader.preprocessors.GetGrades",
    "nbconvert.preprocessors.CSSHTMLHeaderPreprocessor",
    "grader.feedback.SanitizeFeedback",
]
