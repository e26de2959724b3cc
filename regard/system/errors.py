"""UserError: what the person got wrong, said in one sentence."""


class UserError(Exception):
    """A mistake of the user's: what, where (file and line, or key) and what to do.

    The command line prints it as one message and ends with exit code 2; everything else that is
    raised is a defect of ours: exit code 1, and its traceback is kept in a file.
    """
