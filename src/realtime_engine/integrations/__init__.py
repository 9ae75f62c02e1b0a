"""All knowledge of particular models: each folder is one of them and can be deleted on its own.

None knows another, or HTTP; :mod:`.registry` knows where each one is and imports it only when it is asked for.
"""
