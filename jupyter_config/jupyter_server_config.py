"""The notebook server that `make start` opens."""

c = get_config()  # noqa: F821

# In a container the only user is often root. The server listens on this computer alone.
c.ServerApp.allow_root = True
# The log shows what is wrong, and always the URL.
c.ServerApp.log_level = "WARN"
# A course machine is closed to the network: no question about news, no look-up of versions.
c.LabApp.news_url = None
c.LabApp.check_for_updates_class = "jupyterlab.NeverCheckForUpdate"
