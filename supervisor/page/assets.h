/*
 * The files of the page, as texts that the build makes of assets/.
 */
#ifndef CLOISTER_SUPERVISOR_PAGE_ASSETS_H
#define CLOISTER_SUPERVISOR_PAGE_ASSETS_H

extern const char page_html[];
extern const char page_css[];
extern const char page_js[];
extern const char page_api[];
extern const char page_curves[];
extern const char page_details[];
extern const char page_dom[];
extern const char page_sandboxes[];
extern const char page_watch[];
extern const char page_workers[];

#endif
